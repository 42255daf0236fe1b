#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/plan/search.h"
#include "client/loadgen/send/run.h"

namespace softmax::client {

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
