#include <cstdio>

#include "client/loadgen/plan/experiment.h"
#include "client/loadgen/plan/options.h"
#include "client/loadgen/report/report.h"
#include "client/loadgen/send/run.h"
#include "server/base/process_settings.h"

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  int exit_code = 0;
  if (const std::string problem = softmax::PollStrategyProblem(); !problem.empty()) {
    std::fprintf(stderr, "softmax-loadgen: %s\n", problem.c_str());
    return 2;
  }
  const auto plan = softmax::client::ParseCommandLine(argc, argv, &exit_code);
  if (!plan) return exit_code;
  // A wait costs something for every connection of the thread.
  const softmax::client::LoadOptions& load = plan->load;
  softmax::SetPoller(load.TotalConnections() <= 64 * load.processes * load.threads);
  softmax::client::CatchInterrupts();
  const softmax::client::Outcome outcome = softmax::client::RunPlan(*plan);
  exit_code = softmax::client::ExitCodeFor(*plan, outcome);
  if (outcome.runs.empty()) return exit_code;
  const bool written = softmax::client::WriteReports(*plan, outcome);
  return exit_code == 0 && !written ? 1 : exit_code;
}
