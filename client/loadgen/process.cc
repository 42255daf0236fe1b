#include "client/loadgen/process.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "client/loadgen/sender.h"
#include "client/loadgen/verifier.h"
#include "client/softmax_client/channel.h"

namespace softmax::client {
namespace {

std::int64_t CpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return std::int64_t{t.tv_sec} * 1000000000 + std::int64_t{t.tv_usec} * 1000; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

// False, and a reason on the board: the server cannot be reached in time.
bool Connect(const LoadOptions& options, int process, ProcessTally& tally, Channels* channels) {
  for (int c = process; c < options.connections; c += options.processes) {
    channels->push_back(CreateChannel(options.address, ChannelSettings()));
    channels->back()->GetState(true);  // starts connecting all of them at once
  }
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(options.connect_timeout);
  for (const auto& channel : *channels) {
    if (channel->WaitForConnected(deadline)) continue;
    tally.failure.Set(("no connection to " + options.address + " within " +
                       std::to_string(options.connect_timeout.count() / 1000000) + " ms")
                          .c_str());
    return false;
  }
  return true;
}

void SleepUntil(std::int64_t ns) {
  const std::int64_t now = NowNs();
  if (ns > now) std::this_thread::sleep_for(std::chrono::nanoseconds(ns - now));
}

// Measures this process's CPU time in the window, whose end may move forward.
void MeasureCpu(const Control& control, ProcessTally& tally) {
  constexpr std::int64_t kStep = 5000000;
  const auto begin = [&] { return std::min(control.start_ns.load(), control.end_ns.load()); };
  while (NowNs() < begin()) SleepUntil(std::min(begin(), NowNs() + kStep));
  const std::int64_t before = CpuNs();
  while (NowNs() < control.end_ns.load()) {
    SleepUntil(std::min(control.end_ns.load(), NowNs() + kStep));
  }
  tally.cpu_ns = CpuNs() - before;
}

}  // namespace

void RunSendingProcess(const LoadOptions& options, const Workload& workload, const Board& board, int process) {
  ProcessTally& tally = board.process(process);
  Channels channels;
  if (!Connect(options, process, tally, &channels)) {
    tally.state = ProcessState::kUnreachable;
    return;
  }
  std::optional<Verifier> verifier;
  if (options.checking == Checking::kSample) verifier.emplace(options, workload, tally);
  tally.state = ProcessState::kConnected;
  // All processes begin together.
  while (board.control().start_ns.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));

  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    Channels mine;
    for (std::size_t c = static_cast<std::size_t>(t); c < channels.size();
         c += static_cast<std::size_t>(options.threads)) {
      mine.push_back(channels[c]);
    }
    if (mine.empty()) continue;
    threads.emplace_back([&, t, mine] {
      SenderThread sender(options, workload, board, verifier ? &*verifier : nullptr, process, t);
      sender.Run(mine);
    });
  }
  MeasureCpu(board.control(), tally);
  for (std::thread& thread : threads) thread.join();
  verifier.reset();
  tally.state = ProcessState::kDone;
}

}  // namespace softmax::client
