#include <absl/strings/str_cat.h>
#include <grpc/support/log.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "common/base/process_settings.h"
#include "common/base/shortage.h"
#include "server/app/component_options.h"
#include "server/app/server.h"
#include "server/base/log.h"
#include "server/config/config.h"
#include "server/rpc/accept/socket_poll.h"

namespace softmax::server {
namespace {

constexpr char kProgram[] = "softmax-server";
// Exit codes, as docs/reference.md lists them; and kExitUnavailable: an address, a device, memory or threads cannot be
// had.
constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitDeviceFailed = 70;

int ExitCodeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return kExitUsage;
  if (absl::IsUnavailable(status) || absl::IsResourceExhausted(status)) return kExitUnavailable;
  return kExitFailure;
}

// SIGHUP: certificates and tokens are looked at now. SIGUSR1, SIGUSR2: one step more or fewer messages.
bool IsOrder(int signal) { return signal == SIGHUP || signal == SIGUSR1 || signal == SIGUSR2; }

void Obey(int signal, Server& server) {
  if (signal == SIGHUP) {
    LogInfo("SIGHUP: looking at certificates and tokens");
    server.RefreshSecrets();
    return;
  }
  const std::string level(StepLogLevel(/*more=*/signal == SIGUSR1));
  // Said at the new level, so that it is seen whatever that is.
  LogAtSetLevel(absl::StrCat("log-level is ", level, " now"));
}

// The signal number that ended the wait, or 0 when a device failed.
int WaitForEnd(Server& server, const sigset_t& signals) {
  while (true) {
    const timespec interval{0, 200'000'000};
    const int signal = sigtimedwait(&signals, nullptr, &interval);
    if (IsOrder(signal)) {
      Obey(signal, server);
      continue;
    }
    if (signal > 0) return signal;
    if (!server.health().ok()) return 0;
  }
}

void DrainUntilSecondSignal(Server& server, const sigset_t& signals) {
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done.load()) {
      const timespec interval{0, 50'000'000};
      const int signal = sigtimedwait(&signals, nullptr, &interval);
      if (IsOrder(signal)) {
        Obey(signal, server);
      } else if (signal > 0) {
        server.HurryDrain();
      }
    }
  });
  server.Drain();
  done.store(true);
  watcher.join();
}

bool FirstOfItsSecond() {
  static std::atomic<std::int64_t> last{-1};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return last.exchange(second) != second;
}

// gRPC's own messages go to our log, in its format. gRPC complains in a line of its own about each client that fails
// a handshake, which is for anybody to cause: one line a second is a warning here, the others are for level debug.
void LogOfGrpc(gpr_log_func_args* message) {
  const bool error = message->severity == GPR_LOG_SEVERITY_ERROR;
  const auto level = error && FirstOfItsSecond() ? LogLevel::kWarning : LogLevel::kDebug;
  Log(level, "gRPC: ", message->message);
}

int Run(const Config& config) {
  // Blocked before any thread starts, so that only the waits below take them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  RaiseDescriptorLimit();

  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(config);
  if (!server.ok()) {
    LogError("cannot start: ", server.status().message());
    return ExitCodeOf(server.status());
  }
  const int signal = WaitForEnd(**server, signals);
  if (signal == 0) {
    LogError("a device failed: ", (*server)->health().message());
  } else {
    LogInfo(strsignal(signal), ": draining; a second signal ends at once");
  }
  DrainUntilSecondSignal(**server, signals);
  const int exit_code = signal == 0 ? kExitDeviceFailed : kExitOk;
  if ((*server)->hangs()) {
    // A usual exit frees what the CUDA runtime has, and may wait for the device for ever.
    EndLogging();
    std::_Exit(exit_code);
  }
  return exit_code;
}

}  // namespace
}  // namespace softmax::server

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  softmax::ExitWithoutMemory(softmax::server::kProgram);
  const softmax::server::ParseResult parsed = softmax::server::ParseConfig(argc, argv);
  std::cout << parsed.output;
  std::cerr << parsed.error;
  if (!softmax::OutputArrived(softmax::server::kProgram)) return softmax::kExitUnavailable;
  if (!parsed.run) return parsed.exit_code;
  if (const std::string shortage = softmax::ThreadShortage(softmax::server::ThreadsFor(parsed.config));
      !shortage.empty()) {
    std::cerr << softmax::server::kProgram << ": " << shortage << "\n";
    return softmax::kExitUnavailable;
  }
  const absl::Status logging = softmax::server::InitLogging(parsed.config.log_level, parsed.config.log_format);
  if (!logging.ok()) {
    std::cerr << logging.message() << "\n";
    return softmax::server::ExitCodeOf(logging);
  }
  softmax::SetPoller(/*own_sockets=*/parsed.config.poller == "poll");
  softmax::server::KeepSocketsBetweenWaits();
  gpr_set_log_function(&softmax::server::LogOfGrpc);
  for (const std::string& warning : parsed.warnings) softmax::server::LogWarning(warning);
  return softmax::server::Run(parsed.config);
}
