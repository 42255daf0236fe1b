// softmax-simulation: worlds by their seeds, until one goes wrong or the time is over.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <string>

#include "tests/simulation/shrink.h"
#include "tests/simulation/world.h"

namespace softmax::simulation {
namespace {

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void Tell(const std::string& line) { std::puts(line.c_str()); }

// The name before the colon: which checker it was.
std::string KindOf(const std::string& violation) { return violation.substr(0, violation.find(':')); }

int Explain(const Script& script, const std::string& violation) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(script.seed), violation.c_str());
  const std::string kind = KindOf(violation);
  const Script small =
      Shrink(script, [&](const Script& candidate) { return KindOf(RunWorld(candidate).violation) == kind; });
  std::printf("the fewest actions that show it, %zu of %zu (%s):\n", small.actions.size(), script.actions.size(),
              Describe(small.settings).c_str());
  for (const Action& action : small.actions) Tell("  " + Describe(action));
  Tell("what happens then:");
  Tell("  " + RunWorld(small, [](const std::string& line) { Tell("  " + line); }).violation);
  std::printf("again: softmax-simulation --seed %llu --requests %zu\n", static_cast<unsigned long long>(script.seed),
              script.actions.size());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app{"Simulates the server's batching: a seed is a world. Ends with 1 at the first that goes wrong."};
  std::uint64_t seed = 0;
  std::uint64_t from = 1;
  std::uint32_t requests = 2000;
  double seconds = 10;
  bool fresh = false;
  bool trace = false;
  CLI::Option* const one = app.add_option("--seed", seed, "Only this world");
  app.add_option("--from", from, "The first seed")->capture_default_str();
  app.add_option("--seconds", seconds, "How long, in seconds of CPU time")->capture_default_str();
  app.add_option("--requests", requests, "Of a world")->capture_default_str();
  app.add_flag("--fresh", fresh, "From a seed that nobody has seen: the time of day");
  app.add_flag("--trace", trace, "With --seed: everything that happens");
  CLI11_PARSE(app, argc, argv);

  if (one->count() > 0) {
    const Script script = MakeScript(seed, requests);
    if (trace) return RunWorld(script, Tell).violation.empty() ? 0 : 1;
    const Outcome outcome = RunWorld(script);
    if (!outcome.violation.empty()) return Explain(script, outcome.violation);
    std::printf("%llu requests, %llu answered with OK, trace %016llx\n",
                static_cast<unsigned long long>(outcome.requests), static_cast<unsigned long long>(outcome.answered),
                static_cast<unsigned long long>(outcome.trace));
    return 0;
  }
  if (fresh) from = static_cast<std::uint64_t>(std::time(nullptr)) * 1'000'000;
  std::uint64_t total = 0;
  std::uint64_t answered = 0;
  const double began = CpuSeconds();
  for (seed = from; CpuSeconds() - began < seconds; ++seed) {
    const Script script = MakeScript(seed, requests);
    const Outcome outcome = RunWorld(script);
    if (!outcome.violation.empty()) return Explain(script, outcome.violation);
    total += outcome.requests;
    answered += outcome.answered;
  }
  std::printf("seeds %llu to %llu: %llu requests, %llu answered with OK, %.0f requests a second of CPU time\n",
              static_cast<unsigned long long>(from), static_cast<unsigned long long>(seed - 1),
              static_cast<unsigned long long>(total), static_cast<unsigned long long>(answered),
              static_cast<double>(total) / (CpuSeconds() - began));
  return 0;
}

}  // namespace
}  // namespace softmax::simulation

int main(int argc, char** argv) { return softmax::simulation::Main(argc, argv); }
