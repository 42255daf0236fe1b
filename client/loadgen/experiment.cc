#include "client/loadgen/experiment.h"

#include <absl/strings/str_format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "client/loadgen/plan/workload.h"

namespace softmax::client {
namespace {

// "1000", "12500.5", "0.001": without an exponent and without zeros behind.
std::string NumberText(double value) {
  std::string text = absl::StrFormat("%.*f", value < 1 ? 6 : 2, value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string NameOfRun(const LoadOptions& load) {
  if (load.loop == Loop::kClosed) return absl::StrFormat("concurrency %d", load.TotalConnections() * load.in_flight);
  if (load.arrivals.trace) return "trace";
  const auto& segments = load.arrivals.segments;
  const bool steady = segments.size() == 1 && segments[0].from_per_s == segments[0].to_per_s;
  return steady ? "rate " + NumberText(segments[0].from_per_s) + "/s" : "schedule";
}

// On a terminal, where a plan of many runs goes on for long.
void SayRun(const RunResult& run) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "%-20s offered %s/s  answered %s/s  p50 %s us  p99 %s us  errors %lu  dropped %lu\n",
               run.name.c_str(), RateText(run.offered_per_s).c_str(), RateText(run.achieved_per_s).c_str(),
               FigureText(run.latency.at_us[0]).c_str(), FigureText(run.latency.at_us[2]).c_str(),
               static_cast<unsigned long>(Sum(run.errors)), static_cast<unsigned long>(run.dropped()));
}

class Runner {
 public:
  Runner(const Plan& plan, Outcome* outcome) : plan_(plan), workload_(Workload::Build(plan.load)), outcome_(*outcome) {
    several_ = plan.search || plan.sweep != SweepKind::kNone || plan.repeats > 1;
  }

  // One run and its repeats. False: the plan is to stop.
  bool Repeat(const LoadOptions& load) {
    for (int i = 0; i < plan_.repeats; ++i) {
      RunResult result;
      outcome_.last = RunOnce(NameOfRun(load), load, workload_, &result);
      if (outcome_.last != RunEnd::kMeasured) return false;
      if (several_) SayRun(result);
      outcome_.runs.push_back(std::move(result));
      if (Interrupted() || !outcome_.runs.back().complete) return false;
    }
    return true;
  }

  void Sweep() {
    for (const double value : plan_.sweep_values) {
      const LoadOptions load = plan_.sweep == SweepKind::kRate ? AtRate(plan_.load, value)
                                                               : AtConcurrency(plan_.load, static_cast<int>(value));
      if (!Repeat(load)) return;
    }
  }

  void Search() {
    outcome_.search = FindHighestRate(plan_.search_low, plan_.search_high, plan_.search_precision,
                                      [&](double rate) { return ProbeRate(rate); });
  }

 private:
  // A rate keeps the SLO when more than half of its repeats do.
  std::optional<Probe> ProbeRate(double rate) {
    const std::size_t before = outcome_.runs.size();
    if (!Repeat(AtRate(plan_.load, rate))) return std::nullopt;
    const auto count = [&](auto is) {
      return std::count_if(outcome_.runs.begin() + static_cast<std::ptrdiff_t>(before), outcome_.runs.end(), is) * 2 >
             plan_.repeats;
    };
    return Probe{count(KeepsSlo), count([](const RunResult& run) { return run.generator.limited(); })};
  }

  const Plan& plan_;
  const Workload workload_;
  Outcome& outcome_;
  bool several_ = false;
};

}  // namespace

Outcome RunPlan(const Plan& plan) {
  Outcome outcome;
  Runner runner(plan, &outcome);
  if (plan.search) {
    runner.Search();
  } else if (plan.sweep != SweepKind::kNone) {
    runner.Sweep();
  } else {
    runner.Repeat(plan.load);
  }
  return outcome;
}

int ExitCodeFor(const Plan& plan, const Outcome& outcome) {
  if (outcome.last == RunEnd::kUnreachable || outcome.last == RunEnd::kUnavailable) return 3;
  if (outcome.last == RunEnd::kFailed || outcome.runs.empty()) return 1;
  for (const RunResult& run : outcome.runs) {
    if (run.wrong > 0 || !run.complete) return 1;
    // A search goes beyond what the server can do, where calls may fail.
    if (Sum(run.errors) + Sum(run.warmup_errors) > 0 && !plan.allow_errors && !plan.search) return 1;
    // Without one answer nothing was shown, unless the user stopped it.
    if (run.latency.count == 0 && !run.interrupted && !plan.search) return 1;
  }
  if (outcome.search && !outcome.search->rate_per_s && !outcome.search->stopped) return 1;
  return 0;
}

}  // namespace softmax::client
