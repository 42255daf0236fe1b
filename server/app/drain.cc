#include "server/app/drain.h"

#include "server/base/log.h"

namespace softmax::server {
namespace {

constexpr auto kCallsPoll = std::chrono::milliseconds(2);
// How long cancelled calls may still take for their batches; longer only where a device hangs.
constexpr auto kLastCalls = std::chrono::seconds(1);

}  // namespace

bool Drain::WaitUnlessHurried(Nanoseconds duration) {
  const TimePoint until = SteadyClock::now() + duration;
  MutexLock lock(hurry_mu_);
  while (!hurry_ && SteadyClock::now() < until) hurry_changed_.wait_until(hurry_mu_, until);
  return hurry_;
}

void Drain::Hurry() {
  {
    MutexLock lock(hurry_mu_);
    hurry_ = true;
  }
  hurry_changed_.notify_all();
}

void Drain::Run() {
  LogInfo("draining: ", state_.requests_in_flight.Sum(), " requests in flight");
  state_.health.SetReady(false);
  WaitUnlessHurried(options_.delay);
  state_.draining.store(true);
  parts_.acceptor->StopListening();
  if (parts_.regions != nullptr) parts_.regions->StopAllocating();
  state_.ending_watches.store(true);
  for (const auto& queue : parts_.queues) queue->RequestAttention();
  const TimePoint until = SteadyClock::now() + options_.timeout;
  WaitForCalls(until);
  // A call that reaches a grpc::Server after its Shutdown is CANCELLED, which no client retries. So the connections end
  // first: what has arrived is still answered (UNAVAILABLE), what comes later finds its connection closed (UNAVAILABLE,
  // too).
  state_.connections.EndAll(until);
  WaitForCalls(until);
  const std::int64_t left = state_.active_calls.Sum();
  if (left > 0) LogWarning("drain-timeout: cancelling ", left, " calls");
  ShutDown(std::chrono::system_clock::now() +
           (left > 0 ? std::chrono::milliseconds(0) : std::chrono::milliseconds(1000)));
  LogInfo("drained");
}

void Drain::WaitForCalls(TimePoint until) {
  while (state_.active_calls.Sum() > 0 && SteadyClock::now() < until)
    if (WaitUnlessHurried(kCallsPoll)) return;
}

void Drain::ShutDown(std::chrono::system_clock::time_point deadline) {
  if (shut_down_) return;
  shut_down_ = true;
  parts_.sweeper.reset();
  if (parts_.acceptor != nullptr) parts_.acceptor->StopListening();
  state_.backlog.Stop(/*fail=*/false);
  for (const auto& queue : parts_.queues) queue->server().Shutdown(deadline);
  if (parts_.acceptor != nullptr) parts_.acceptor->Stop();
  health_connections_.ShutdownAll();
  if (parts_.health_server != nullptr) parts_.health_server->Shutdown();
  const TimePoint until = SteadyClock::now() + kLastCalls;  // of all together
  for (const auto& queue : parts_.queues) queue->ShutdownAndJoin(until);
  if (parts_.metrics != nullptr) parts_.metrics->ClearGauges();
}

void Drain::Abort() {
  state_.draining.store(true);
  state_.ending_watches.store(true);
  for (const auto& queue : parts_.queues) queue->RequestAttention();
  state_.connections.ShutdownAll();
  ShutDown(std::chrono::system_clock::now());
}

}  // namespace softmax::server
