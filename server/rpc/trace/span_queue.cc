#include "server/rpc/trace/span_queue.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace softmax::server {
namespace {

std::uint64_t Mixed(std::uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

SpanQueue::SpanQueue(double ratio) : ratio_(ratio) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
  random_.seed(seed);
  batch_seed_ = random_();
}

bool SpanQueue::Samples(std::string_view traceparent, TraceContext* parent) {
  if (!traceparent.empty()) {
    if (const auto context = ParseTraceparent(traceparent)) {
      *parent = *context;
      return context->sampled;
    }
  }
  return ratio_ > 0 && std::generate_canonical<double, 53>(random_) < ratio_;
}

template <typename Id>
Id SpanQueue::NewId() {
  Id id{};
  while (id == Id{}) {  // zeros are no id
    for (std::size_t at = 0; at < id.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t bits = random_();
      std::memcpy(id.data() + at, &bits, sizeof(bits));
    }
  }
  return id;
}

TraceId SpanQueue::Record(const TraceContext& parent, std::string trace_state, std::string peer,
                          const RequestSample& sample, std::uint64_t request_id, const Answer* answer) {
  const std::uint64_t at = written_.load(std::memory_order_relaxed);
  if (at - taken_.load(std::memory_order_acquire) >= kCapacity) {
    dropped_.Add(1);
    return {};
  }
  const bool is_root = parent.trace_id == TraceId{};
  TracedRequest& request = slots_[at % kCapacity];
  request = {.trace_id = is_root ? NewId<TraceId>() : parent.trace_id,
             .span_id = NewId<SpanId>(),
             .parent_span_id = parent.span_id,
             .trace_state = is_root ? std::string() : std::move(trace_state),
             .peer = std::move(peer),
             .sample = sample,
             .request_id = request_id};
  if (answer != nullptr && answer->ran) {
    request.execution = answer->execution;
    request.batch_rows = answer->batch_rows;
    // Of the queue and the moment of the launch, which no two batches of a thread have in common.
    const std::uint64_t bits[] = {
        Mixed(batch_seed_ ^ static_cast<std::uint64_t>(answer->launched.time_since_epoch().count())), batch_seed_ | 1};
    std::memcpy(request.batch_trace_id.data(), bits, sizeof(bits));
    const std::uint64_t span = Mixed(bits[0]) | 1;
    std::memcpy(request.batch_span_id.data(), &span, sizeof(span));
  }
  request.end = SteadyClock::now();
  request.end_unix_ns =
      std::chrono::duration_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const TraceId trace_id = request.trace_id;
  written_.store(at + 1, std::memory_order_release);
  return trace_id;
}

void SpanQueue::Take(std::vector<TracedRequest>* requests) {
  const std::uint64_t end = written_.load(std::memory_order_acquire);
  for (std::uint64_t at = taken_.load(std::memory_order_relaxed); at < end; ++at) {
    requests->push_back(std::move(slots_[at % kCapacity]));
    taken_.store(at + 1, std::memory_order_release);
  }
}

}  // namespace softmax::server
