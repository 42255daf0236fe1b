#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/traceparent.h"
#include "common/wire/decode.h"
#include "common/wire/oip_decode.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/calls/call_times.h"
#include "server/rpc/calls/region_places.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/queue/message_view.h"
#include "server/rpc/security/token_check.h"
#include "server/rpc/trace/span_queue.h"

namespace softmax::server {

absl::Status DrainingError();
absl::Status NoMessageError();

// The way in and out of one queue thread, for every kind of call: whether a call may come in, whether its message can
// be read, and what is counted and logged of its requests. Every refusal by server/rpc is counted here; batching counts
// its own. For the queue's thread. A `Call` has client_metadata() and peer(): a ServerContext or a RawCall.
class FrontDoor {
 public:
  // `server`: the queue server's index, as connections are handed out to it.
  FrontDoor(ServiceState& state, Recorder& recorder, std::uint32_t server)
      : state_(state), recorder_(recorder), server_(server), tokens_(state.tokens) {}

  // The way in of calls that are answered during a drain, too. UNAUTHENTICATED or PERMISSION_DENIED: by its token.
  template <typename Call>
  absl::Status Authorize(const Call& call) {
    return Counted(RefuseReason::kUnauthorized, tokens_.Authorize(call));
  }
  // The way in of calls that bring requests: UNAVAILABLE during a drain, and as Authorize.
  template <typename Call>
  absl::Status Enter(const Call& call) {
    return state_.draining.load(std::memory_order_relaxed) ? RefuseDraining() : Authorize(call);
  }
  // UNAVAILABLE, for what comes to a call that is ending already because of a drain.
  absl::Status RefuseDraining() { return Counted(RefuseReason::kDraining, DrainingError()); }

  // NoMessageError, for a call whose client has sent no message and is there still: one that left is no refusal.
  absl::Status RefuseWithoutMessage() { return Counted(RefuseReason::kInvalid, NoMessageError()); }

  // What a message may take of a queue thread to be read: half a millisecond.
  static constexpr std::uint64_t kStepsAtOnce = 64u << 10;
  WireLimits LimitsAtOnce() const {
    WireLimits limits = state_.limits;
    limits.max_steps = kStepsAtOnce;
    return limits;
  }
  // A unary call's message. The result is the request's status, too. Any thread; Decoded has to be told of it.
  static absl::Status Decode(const grpc_byte_buffer* message, const WireLimits& limits, DecodedRequest* request);
  static absl::Status Decode(const grpc_byte_buffer* message, const WireLimits& limits, InferRequest* request);
  // A stream's message. Not OK: the stream has to end. OK: the request has its own status.
  static absl::Status Decode(grpc::ByteBuffer* message, const WireLimits& limits, InferRequest* request);
  // A stream's message, to be taken apart. `view` refers to it. Not OK: the stream has to end.
  static absl::Status Decode(grpc::ByteBuffer* message, const WireLimits& limits, std::optional<MessageView>* view,
                             StreamRequestReader* reader);
  // Finds what the request has in regions. On the queue's thread, and not counted yet (Decoded).
  absl::Status FindPlaces(const DecodedRequest& request, RegionPlaces* places) const {
    return server::FindPlaces(request, state_.regions, server_, places);
  }
  // The status that a message was read with; a refusal is counted.
  absl::Status Decoded(absl::Status status) { return Counted(RefuseReason::kInvalid, std::move(status)); }
  // RESOURCE_EXHAUSTED, for a message that is larger than what its connection may hold.
  absl::Status RefuseBytes();

  // Each request that arrives finishes once.
  void RequestArrived() { state_.requests_in_flight.Add(1); }
  // A request of a stream's message. False: its status refuses it, and it has finished already.
  bool StreamedRequestArrived(Method method, const absl::Status& status, TimePoint now) {
    RequestArrived();
    if (status.ok()) return true;
    RefuseStreamed(method, status, now);
    return false;
  }
  // `answer` may be null: the request did not run. Logs a slow one.
  template <typename Call>
  void RequestFinished(const RequestSample& sample, std::uint64_t id, const Answer* answer, const Call& call) {
    CountFinished(sample);
    Report(sample, id, answer, call);
  }
  // The two parts of it, for a request that is answered before it is known how it finishes.
  void CountFinished(const RequestSample& sample) {
    state_.requests_in_flight.Add(-1);
    recorder_.RequestFinished(sample);
  }
  // Tells the log of a request that was slow, and the exporter of spans of one that is traced.
  template <typename Call>
  void Report(const RequestSample& sample, std::uint64_t id, const Answer* answer, const Call& call) {
    const bool slow = state_.slow_requests.IsSlow(sample.total);
    if (!slow && spans_ == nullptr) return;
    const std::string_view traceparent = OnlyValue(call, "traceparent");
    TraceContext parent;
    const bool traced = spans_ != nullptr && spans_->Takes(traceparent, &parent);
    if (traced) Trace(sample, id, answer, parent, TraceStateOf(call.client_metadata()), call.peer());
    if (slow) ReportSlow(sample, id, answer, CheckedTraceparent(traceparent), call.peer());
  }

  // By the name that gRPC has for a call's peer; null when it is gone already.
  std::shared_ptr<Connection> ConnectionOf(const std::string& peer) { return state_.connections.Find(peer, server_); }

 private:
  // The status; unless it is OK, it is counted as a refusal.
  absl::Status Counted(RefuseReason reason, absl::Status status) {
    if (!status.ok()) recorder_.RequestRefused(reason);
    return status;
  }
  void RefuseStreamed(Method method, const absl::Status& status, TimePoint now);
  void ReportSlow(const RequestSample& sample, std::uint64_t id, const Answer* answer, std::string_view traceparent,
                  const std::string& peer);
  void Trace(const RequestSample& sample, std::uint64_t id, const Answer* answer, const TraceContext& parent,
             std::string trace_state, const std::string& peer);

  ServiceState& state_;
  Recorder& recorder_;
  const std::uint32_t server_;
  TokenCheck tokens_;
  SpanQueue* const spans_ = state_.spans == nullptr ? nullptr : state_.spans->AddQueue();  // null: none are sent
};

}  // namespace softmax::server
