#include "server/rpc/trace/span_queue.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace softmax::server {

SpanQueue::SpanQueue(double ratio) : ratio_(ratio) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
  random_.seed(seed);
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

bool SpanQueue::Takes(std::string_view traceparent, TraceContext* parent) {
  if (!Samples(traceparent, parent)) return false;
  // First of all: under a load that fills the queue again and again, what finds no room costs next to nothing.
  if (written_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) < kCapacity) return true;
  dropped_.Add(1);
  return false;
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
  const bool is_root = parent.place.trace_id == TraceId{};
  TracedRequest& request = slots_[at % kCapacity];
  request = {.place = {is_root ? NewId<TraceId>() : parent.place.trace_id, NewId<SpanId>()},
             .parent_span_id = parent.place.span_id,
             .trace_state = is_root ? std::string() : std::move(trace_state),
             .peer = std::move(peer),
             .sample = sample,
             .request_id = request_id,
             .end = SteadyClock::now(),
             .end_unix_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count()};
  if (answer != nullptr && answer->ran) {
    request.execution = answer->execution;
    request.batch_rows = answer->batch_rows;
    request.begins_batch = answer->batch_rows > 0 && std::exchange(launched_, answer->launched) != answer->launched;
    if (request.begins_batch) batch_ = {NewId<TraceId>(), NewId<SpanId>()};
    request.batch = batch_;
  }
  const TraceId trace_id = request.place.trace_id;
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
