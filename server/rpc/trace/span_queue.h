#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "server/base/counters.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"
#include "server/rpc/security/client_metadata.h"

namespace softmax::server {

using TraceId = std::array<char, 16>;  // bytes
using SpanId = std::array<char, 8>;

struct SpanPlace {
  TraceId trace_id{};
  SpanId span_id{};
};

// A place in somebody's trace, as a traceparent names it.
struct TraceContext {
  SpanPlace place;
  bool sampled = false;
};

// The one value of a key; empty: there is none, or there are several. A `Call` has client_metadata() and perhaps a
// quicker OnlyValue of its own.
template <typename Call>
std::string_view OnlyValue(const Call& call, const char* key) {
  if constexpr (requires { call.OnlyValue(key); }) {
    return call.OnlyValue(key);
  } else {
    const auto& metadata = call.client_metadata();
    if (metadata.count(key) != 1) return {};
    const grpc::string_ref value = metadata.find(key)->second;
    return {value.data(), value.size()};
  }
}

// What a traceparent says. Nothing: it is not valid (CheckedTraceparent).
std::optional<TraceContext> ParseTraceparent(std::string_view value);

// All tracestates of a call as one list. Empty: there is none, or one that is not valid, which W3C has dropped.
std::string TraceStateOf(const ClientMetadata& metadata);

// A request that is traced, as its queue thread saw it. Its spans are made of it later, elsewhere (span_exporter.cc).
struct TracedRequest {
  SpanPlace place;          // of the request's own span
  SpanId parent_span_id{};  // zeros: its trace begins here
  std::string trace_state;
  std::string peer;
  RequestSample sample;
  std::uint64_t request_id = 0;  // as its caller numbered it; 0: not at all
  // sample.ran:
  Nanoseconds execution{0};
  std::uint64_t batch_rows = 0;
  SpanPlace batch;            // of its batch's span, the same for all requests of the batch
  bool begins_batch = false;  // the first of them that is traced
  // Every other time is counted from here, so that a step of the wall clock moves none of a request's spans apart.
  TimePoint end;
  std::int64_t end_unix_ns = 0;
};

// The traced requests of one queue thread on their way to the exporter. Bounded: what finds no room is counted and
// dropped. Take and the counter are the exporter's; everything else is the queue thread's.
class SpanQueue {
 public:
  // So many in an interval of the exporter's are more than a tracing system wants, and a few percent of a core.
  static constexpr std::size_t kCapacity = 512;

  // `ratio`: of requests without a valid traceparent, from 0 to 1.
  explicit SpanQueue(double ratio);

  // Whether a request that came with this traceparent (empty: none) is traced and there is room for it, and then from
  // where on: `parent` has no trace id where the trace begins here.
  bool Takes(std::string_view traceparent, TraceContext* parent);
  // Puts down a request that Takes was true of, now that it is answered. `answer` may be null: it did not run. The
  // trace that it is in.
  TraceId Record(const TraceContext& parent, std::string trace_state, std::string peer, const RequestSample& sample,
                 std::uint64_t request_id, const Answer* answer);

  // Appends all there are to `requests`.
  void Take(std::vector<TracedRequest>* requests);
  std::uint64_t dropped() const { return dropped_.Get(); }

 private:
  bool Samples(std::string_view traceparent, TraceContext* parent);
  template <typename Id>
  Id NewId();

  const double ratio_;
  std::mt19937_64 random_;
  TimePoint launched_;  // the last batch: a thread's complete one after the other
  SpanPlace batch_;     // its span
  std::vector<TracedRequest> slots_{kCapacity};
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> taken_{0};
  ThreadCounter dropped_;
};

}  // namespace softmax::server
