#include "client/loadgen/experiment.h"

#include <absl/strings/str_format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
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

}  // namespace

SearchResult FindHighestRate(double low, double high, double precision,
                             const std::function<std::optional<Probe>(double)>& probe) {
  SearchResult result;
  double failed = 0;  // the lowest rate that failed; 0: none yet
  // Tries a rate. False: the search is to stop.
  const auto attempt = [&](double rate) {
    const std::optional<Probe> found = probe(rate);
    if (!found) {
      result.stopped = true;
      return false;
    }
    result.steps.push_back({*found, rate});
    if (found->kept) {
      result.rate_per_s = rate;
    } else {
      failed = rate;
      result.generator_limited = found->generator_limited;
    }
    return true;
  };
  for (double rate = low; failed == 0; rate = std::min(rate * 2, high)) {
    if (!attempt(rate)) return result;
    if (failed == 0 && rate >= high) {
      result.at_upper_bound = true;
      return result;
    }
  }
  while (result.rate_per_s && failed > *result.rate_per_s * (1 + precision)) {
    // The geometric mean: precision is relative.
    if (!attempt(std::sqrt(*result.rate_per_s * failed))) return result;
  }
  return result;
}

Outcome RunPlan(const Plan& plan) {
  const bool several = plan.search || plan.sweep != SweepKind::kNone || plan.repeats > 1;
  const Workload workload = Workload::Build(plan.load);
  Outcome outcome;
  std::vector<RunResult>& runs = outcome.runs;
  // One run and its repeats. False: the plan is to stop.
  const auto repeat = [&](const LoadOptions& load) {
    for (int i = 0; i < plan.repeats; ++i) {
      RunResult result;
      outcome.last = RunOnce(NameOfRun(load), load, workload, &result);
      if (outcome.last != RunEnd::kMeasured) return false;
      if (several) SayRun(result);
      runs.push_back(std::move(result));
      if (Interrupted() || !runs.back().complete) return false;
    }
    return true;
  };
  // A rate keeps the SLO when more than half of its repeats do.
  const auto probe = [&](double rate) -> std::optional<Probe> {
    const auto before = static_cast<std::ptrdiff_t>(runs.size());
    if (!repeat(AtRate(plan.load, rate))) return std::nullopt;
    const auto most = [&](auto is) { return std::count_if(runs.begin() + before, runs.end(), is) * 2 > plan.repeats; };
    return Probe{most(KeepsSlo), most([](const RunResult& run) { return run.generator.limited(); })};
  };
  if (plan.search) {
    outcome.search = FindHighestRate(plan.search_low, plan.search_high, plan.search_precision, probe);
  } else if (plan.sweep == SweepKind::kNone) {
    repeat(plan.load);
  }
  for (const double value : plan.sweep_values) {
    const bool of_rates = plan.sweep == SweepKind::kRate;
    if (!repeat(of_rates ? AtRate(plan.load, value) : AtConcurrency(plan.load, static_cast<int>(value)))) break;
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
