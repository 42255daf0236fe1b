#include "client/loadgen/send/sender_processes.h"

#include <absl/strings/str_cat.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "client/loadgen/send/sender.h"
#include "client/loadgen/send/verifier.h"
#include "client/softmax_client/channel.h"
#include "client/softmax_client/connection_pool.h"
#include "client/softmax_client/softmax_client.h"
#include "common/base/shortage.h"

namespace softmax::client {
namespace {

std::int64_t CpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return std::int64_t{t.tv_sec} * 1000000000 + std::int64_t{t.tv_usec} * 1000; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

using Connections = std::vector<Connection>;

// Why there is no connection, as far as another attempt tells.
std::string WhyNot(const LoadOptions& options, const Address& address) {
  const std::string& target = address.target;
  const bool asked_for_health = options.addresses.size() > 1 || address.by_name;
  constexpr std::chrono::seconds kPatience(1);
  ClientOptions as_here{.target = target, .deadline = kPatience, .retry = {.max_attempts = 1}};
  SetCredentials(options.security, &as_here);
  const auto client = Client::Create(as_here);
  const absl::Status why = client.ok() ? (*client)->GetServerInfo().status() : client.status();
  if (!why.ok()) return std::string(why.message());
  return target + ": it can be reached" + (asked_for_health ? ", but does not report that it is serving" : " by now");
}

bool IsConnectedBy(std::chrono::system_clock::time_point deadline, const LoadOptions& options, Connection* connection) {
  constexpr std::chrono::seconds kLook(1);
  for (;;) {
    const auto now = std::chrono::system_clock::now();
    if (connection->channel->WaitForConnected(std::min<std::chrono::system_clock::time_point>(deadline, now + kLook))) {
      return true;
    }
    if (now >= deadline) return false;
    if (IsLost(*connection, options.addresses[connection->address])) {
      *connection = NewConnection(options, connection->address);
    }
  }
}

// Connections to each address; those of one address are `options.addresses.size()` apart. False, and a reason on the
// board: one cannot be reached in time.
bool Connect(const LoadOptions& options, int process, ProcessTally& tally, Connections* connections) {
  for (int c = process; c < options.connections; c += options.processes) {
    for (std::size_t a = 0; a < options.addresses.size(); ++a) connections->push_back(NewConnection(options, a));
  }
  const auto deadline = std::chrono::system_clock::now() + options.connect_timeout;
  for (Connection& connection : *connections) {
    if (IsConnectedBy(deadline, options, &connection)) continue;
    const Address& to = options.addresses[connection.address];
    const std::int64_t within_ms = options.connect_timeout.count() / 1000000;
    tally.failure.Set(
        absl::StrCat("no connection to ", to.target, " within ", within_ms, " ms; at last: ", WhyNot(options, to))
            .c_str());
    return false;
  }
  return true;
}

std::int64_t ThreadCpuNs(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

// One sending thread, as the process sees it from outside.
struct RunningSender {
  std::thread thread;
  ThreadTally* tally = nullptr;
  clockid_t clock = {};  // its CPU time
  std::int64_t cpu_before_ns = 0;
};

// Measures the CPU time of this process and its senders in the window, whose borders may move.
void MeasureCpu(const Control& control, ProcessTally& tally, std::vector<RunningSender>& senders) {
  constexpr std::int64_t kStep = 5000000;
  const auto begin = [&] { return std::min(control.start_ns.load(), control.end_ns.load()); };
  while (NowNs() < begin()) SleepUntil(std::min(begin(), NowNs() + kStep));
  const std::int64_t before = CpuNs();
  for (RunningSender& sender : senders) sender.cpu_before_ns = ThreadCpuNs(sender.clock);
  while (NowNs() < control.end_ns.load()) {
    SleepUntil(std::min(control.end_ns.load(), NowNs() + kStep));
  }
  tally.cpu_ns = CpuNs() - before;
  for (RunningSender& sender : senders) {
    sender.tally->cpu_ns = std::max<std::int64_t>(0, ThreadCpuNs(sender.clock) - sender.cpu_before_ns);
  }
}

// The connections that thread `thread` of this process sends on: as many to each address.
Connections ConnectionsOf(const LoadOptions& options, const Connections& connections, int thread) {
  Connections mine;
  for (std::size_t c = 0; c < connections.size(); ++c) {
    const std::size_t turn = c / options.addresses.size();
    if (turn % static_cast<std::size_t>(options.threads) == static_cast<std::size_t>(thread)) {
      mine.push_back(connections[c]);
    }
  }
  return mine;
}

// The whole life of one sending process: connects, sends until the window ends, writes what it saw on the board.
void RunSendingProcess(const LoadOptions& options, const Workload& workload, const Board& board, int process) {
  ProcessTally& tally = board.process(process);
  Connections connections;
  if (!Connect(options, process, tally, &connections)) {
    tally.state = ProcessState::kUnreachable;
    return;
  }
  std::optional<Verifier> verifier;
  if (options.checking == Checking::kSample) verifier.emplace(options, workload, tally);
  RetryBudget budget{RetryOptions()};
  std::unique_ptr<SendingRegion> region;
  if (options.regions != RegionKind::kNone) {
    const std::size_t slots = connections.size() * static_cast<std::size_t>(CapacityOf(options));
    auto made = SendingRegion::Make(options, workload, slots);
    if (!made.ok()) {
      tally.failure.Set(absl::StrCat("--regions: ", made.status().message()).c_str());
      tally.state = ProcessState::kUnreachable;
      return;
    }
    region = *std::move(made);
  }
  const SharedParts shared{verifier ? &*verifier : nullptr, options.attempts > 1 ? &budget : nullptr, region.get()};
  tally.state = ProcessState::kConnected;
  // All processes begin together. Timers of this process are to be exact (the default lets them be 50 us late).
  prctl(PR_SET_TIMERSLACK, 1);
  while (board.control().go_ns.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));

  std::vector<RunningSender> senders;
  for (const SenderPlace& place : SenderPlaces(options)) {
    if (place.process != process) continue;
    RunningSender& running = senders.emplace_back();
    running.tally = &board.thread(process, place.thread);
    running.thread = std::thread([&, place] {
      SenderThread sender(options, workload, board, shared, place);
      sender.Run(ConnectionsOf(options, connections, place.thread));
    });
    pthread_getcpuclockid(running.thread.native_handle(), &running.clock);
  }
  MeasureCpu(board.control(), tally, senders);
  for (RunningSender& sender : senders) sender.thread.join();
  verifier.reset();
  tally.state = ProcessState::kDone;
}

}  // namespace

bool SenderProcesses::Start(const LoadOptions& options, const Workload& workload, const Board& board) {
  std::fflush(nullptr);
  for (int p = 0; p < options.processes; ++p) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
      // The parent alone decides about Ctrl-C; no child outlives it.
      signal(SIGINT, SIG_IGN);
      signal(SIGTERM, SIG_IGN);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      RunSendingProcess(options, workload, board, p);
      _exit(0);
    }
    pids_.push_back(pid);
  }
  return true;
}

bool SenderProcesses::Running() {
  for (pid_t& pid : pids_) {
    int status = 0;
    if (pid == 0 || waitpid(pid, &status, WNOHANG) != pid) continue;
    pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed_ = true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kExitUnavailable) lacking_ = true;
  }
  return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid != 0; });
}

void SenderProcesses::Kill() {
  for (const pid_t pid : pids_) {
    if (pid != 0) kill(pid, SIGKILL);
  }
  while (Running()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace softmax::client
