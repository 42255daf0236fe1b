#include "client/loadgen/sender.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace softmax::client {
namespace {

// How often a thread without events looks whether it should give up.
constexpr std::chrono::milliseconds kIdleCheck(100);

void Increment(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

SenderThread::SenderThread(const LoadOptions& options, const Workload& workload, const Board& board, Verifier* verifier,
                           int process, int thread)
    : options_(options),
      workload_(workload),
      board_(board),
      control_(board.control()),
      tally_(board.thread(process, thread)),
      verifier_(verifier),
      process_(process),
      thread_(thread),
      random_(options.seed + static_cast<std::uint64_t>(process * 1000 + thread)) {
  constexpr double kRange = 18446744073709551616.0;  // 2^64
  sample_below_ = options.verify_fraction >= 1 ? std::numeric_limits<std::uint64_t>::max()
                                               : static_cast<std::uint64_t>(options.verify_fraction * kRange);
  position_ = random_();
}

void SenderThread::Run(const std::vector<std::shared_ptr<grpc::Channel>>& channels) {
  MakeSlots(channels);
  live_slots_ = slots_.size();
  for (auto& slot : slots_) slot->Start();
  auto wake_at = std::chrono::system_clock::now() + kIdleCheck;
  void* tag = nullptr;
  bool ok = false;
  while (live_slots_ > 0) {
    const auto next = queue_.AsyncNext(&tag, &ok, wake_at);
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      static_cast<Event*>(tag)->OnEvent(ok);
      continue;
    }
    wake_at = std::chrono::system_clock::now() + kIdleCheck;
    CancelLateSlots();
  }
  queue_.Shutdown();
  while (queue_.Next(&tag, &ok)) {
  }
  slots_.clear();
}

void SenderThread::MakeSlots(const std::vector<std::shared_ptr<grpc::Channel>>& channels) {
  for (const auto& channel : channels) {
    if (options_.method == Method::kStream) {
      slots_.push_back(MakeStreamSlot(*this, channel));
      continue;
    }
    for (int i = 0; i < options_.in_flight; ++i) slots_.push_back(MakeUnarySlot(*this, channel));
  }
}

void SenderThread::CancelLateSlots() {
  if (cancelled_ || !Ended(NowNs() - options_.grace.count())) return;
  cancelled_ = true;
  for (auto& slot : slots_) slot->Cancel();
}

bool SenderThread::RecordAnswer(std::uint32_t variant, std::int64_t sent_ns) {
  const std::int64_t now = NowNs();
  Increment(tally_.answers, 1);
  const bool ended = Ended(now);
  const std::int64_t start = control_.start_ns.load(std::memory_order_relaxed);
  if (!ended && start != 0 && now >= start) {
    const Variant& sent = workload_.variants()[variant];
    ShapeTally& shape = board_.shape(process_, thread_, sent.shape_index);
    shape.latency.Record(static_cast<std::uint64_t>(now - sent_ns));
    Increment(shape.payload_bytes, sent.message.size() - sent.payload_offset);
  }
  return !ended;
}

bool SenderThread::RecordError(int code, const std::string& message) {
  Increment(tally_.errors[std::clamp(code, 0, kCodes - 1)], 1);
  tally_.first_error.Set(message.c_str());
  return !Ended(NowNs());
}

}  // namespace softmax::client
