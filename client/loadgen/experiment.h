#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/send/run.h"

namespace softmax::client {

// What one rate was found to do.
struct Probe {
  bool kept = false;               // the SLO, counted from when requests were due: a slow generator breaks it too
  bool generator_limited = false;  // the generator was late; where the SLO was not kept, that may be its fault
};

struct SearchStep : Probe {
  double rate_per_s = 0;
};

struct SearchResult {
  std::optional<double> rate_per_s;  // the highest that kept the SLO; nothing: not even the lowest did
  bool at_upper_bound = false;       // the highest rate allowed kept it: the server may do more
  bool generator_limited = false;    // the rate above failed because of the generator: the server may do more
  bool stopped = false;              // the search was cut short
  std::vector<SearchStep> steps;     // in the order they were tried
};

// Doubles the rate from `low` until one fails or `high` is reached, then bisects between the last that kept the SLO and
// the first that failed until they are nearer than `precision` (0.02: 2 %). `probe` returns nothing to stop the search.
SearchResult FindHighestRate(double low, double high, double precision,
                             const std::function<std::optional<Probe>(double)>& probe);

// What all runs of one invocation came to.
struct Outcome {
  std::vector<RunResult> runs;         // repeats of one thing follow one another and have the same name
  std::optional<SearchResult> search;  // with --search
  RunEnd last = RunEnd::kMeasured;     // how the last run ended; what was measured before it stands in `runs`
};

// Does what the plan says. Must be called before the process has used gRPC or started a thread.
Outcome RunPlan(const Plan& plan);

// The program's exit code.
int ExitCodeFor(const Plan& plan, const Outcome& outcome);

}  // namespace softmax::client
