#include <string>

#include "client/base/program.h"
#include "client/loadgen/compare/comparison.h"
#include "client/loadgen/experiment.h"
#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/report/report.h"
#include "client/loadgen/send/run.h"
#include "common/base/process_settings.h"
#include "common/base/shortage.h"

namespace {

using softmax::kExitUnavailable;
using softmax::client::LoadOptions;

constexpr char kProgram[] = "softmax-loadgen";

// All processes share what a user or a container may have of threads: tried in this one, for all of them.
std::string Shortage(const LoadOptions& load) {
  const auto processes = static_cast<std::size_t>(load.processes);
  const auto senders = static_cast<std::size_t>(load.threads);
  // Of each process: the sender, its verifier, gRPC.
  std::string shortage = softmax::ThreadShortage(processes * (senders + 2 + softmax::GrpcThreads()));
  if (!shortage.empty()) return shortage;
  // Of each process: some for gRPC itself, two for each queue, one for each connection.
  const std::size_t connections = static_cast<std::size_t>(load.TotalConnections()) / processes + 1;
  return softmax::DescriptorShortage(8 + 2 * senders + connections);
}

}  // namespace

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  softmax::ExitWithoutMemory(kProgram);
  if (const auto done = softmax::client::RunCommand(argc, argv)) return *done;
  softmax::RaiseDescriptorLimit();
  softmax::client::KeepOpenSsl();
  int exit_code = 0;
  if (const std::string problem = softmax::PollStrategyProblem(); !problem.empty()) {
    softmax::client::Say(problem);
    return 2;
  }
  const auto plan = softmax::client::ParseCommandLine(argc, argv, &exit_code);
  if (!plan) return softmax::OutputArrived(kProgram) ? exit_code : kExitUnavailable;
  const LoadOptions& load = plan->load;
  if (const std::string shortage = Shortage(load); !shortage.empty()) {
    softmax::client::Say(shortage);
    return kExitUnavailable;
  }
  // A wait costs something for every connection of the thread.
  softmax::SetPoller(load.TotalConnections() <= 64 * load.processes * load.threads);
  // Sockets that are connecting again are nobody's own then, and gRPC looks at them every 5 s by default: a server that
  // was restarted got its first request after a quarter of a minute.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);
  softmax::client::CatchInterrupts();
  const softmax::client::Outcome outcome = softmax::client::RunPlan(*plan);
  exit_code = softmax::client::ExitCodeFor(*plan, outcome);
  if (outcome.runs.empty()) return exit_code;
  const bool written = softmax::client::WriteReports(*plan, outcome);
  const bool arrived = written && softmax::OutputArrived(kProgram);
  return exit_code == 0 && !arrived ? kExitUnavailable : exit_code;
}
