#include "server/app/sweeper.h"

#include <malloc.h>

#include <chrono>

#include "server/base/log.h"
#include "server/metrics/process_stats.h"
#include "server/rpc/guard/read_guard.h"

namespace softmax::server {
namespace {

// How often overdue answers and the devices' health are looked at.
constexpr auto kSweepInterval = std::chrono::milliseconds(100);
// How many of these pass between two looks at certificates and tokens.
constexpr int kSweepsPerRefresh = 5;
// How many between two looks of the queue threads at their streams.
constexpr int kSweepsPerAttention = 10;

// Of trimming memory.
constexpr auto kQuiet = std::chrono::seconds(1);
constexpr auto kPause = std::chrono::seconds(10);
constexpr double kMuch = 64 << 20;

double ResidentBytes() { return ReadProcessStats().resident_bytes.value_or(0); }

}  // namespace

MemoryTrim::MemoryTrim() : resident_at_start_(ResidentBytes()) {}

void MemoryTrim::Look(bool quiet, TimePoint now) {
  if (!quiet) {
    quiet_since_ = kNoDeadline;
    return;
  }
  if (quiet_since_ == kNoDeadline) quiet_since_ = now;
  if (now - quiet_since_ < kQuiet || now < next_) return;
  next_ = now + kPause;
  if (ResidentBytes() - resident_at_start_ > kMuch) malloc_trim(0);
}

Sweeper::Sweeper(ServiceState& state, DeviceGroup& devices, Secrets& secrets, const QueueThreads& queues,
                 bool unsafe_testing)
    : state_(state),
      devices_(devices),
      secrets_(secrets),
      queues_(queues),
      unsafe_testing_(unsafe_testing),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Sweeper::Run(const std::stop_token& stop) {
  TimePoint warned = SteadyClock::now() - std::chrono::hours(1);
  for (int sweep = 0; !stop.stop_requested(); ++sweep) {
    const TimePoint due = SteadyClock::now() + kSweepInterval;
    std::this_thread::sleep_for(kSweepInterval);
    // Since it was due: where this thread is late, the others are too.
    for (const auto& queue : queues_) queue->MeasureLag(due);
    if (sweep % kSweepsPerRefresh == 0) secrets_.Refresh();
    const TimePoint now = SteadyClock::now();
    // A stream's answers may be overdue before gRPC has seen them.
    if (state_.connections.SweepOverdue(state_.backlog.memory_is_short(), now) || sweep % kSweepsPerAttention == 0) {
      for (const auto& queue : queues_) queue->RequestAttention();
    }
    ReadGuard::Sweep(now);
    devices_.Sweep(now);
    memory_trim_.Look(/*quiet=*/state_.requests_in_flight.Sum() == 0, now);
    if (!devices_.usable()) state_.health.SetLive(false);
    if (unsafe_testing_ && now - warned > std::chrono::minutes(1)) {
      LogWarning("unsafe-testing is on: this server's answers are not to be trusted");
      warned = now;
    }
  }
}

}  // namespace softmax::server
