#include "server/rpc/calls/front_door.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <utility>

#include "common/wire/whole_message.h"
#include "server/rpc/guard/cut_message.h"
#include "server/rpc/queue/message_view.h"

namespace softmax::server {
namespace {

// UNIMPLEMENTED, naming the encoding, unless the message came as identity.
absl::Status CheckEncoding(const MessageView& view) {
  if (view.compression() == GRPC_COMPRESS_NONE) return absl::OkStatus();
  const char* encoding = "unknown";
  (void)grpc_compression_algorithm_name(view.compression(), &encoding);
  return absl::UnimplementedError(absl::StrCat("grpc-encoding: ", encoding, " is not accepted; ", kOnlyIdentity));
}

// Before anything is decoded: what is no message that this server takes.
absl::Status CheckView(const MessageView& view, const WireLimits& limits) {
  if (const std::optional<std::uint32_t> claimed = ClaimOfCut(view.slices())) {
    const absl::Status status = CheckMessage(*claimed, limits);
    if (!status.ok()) return absl::InvalidArgumentError(status.message());  // as a tensor that is too large
  }
  return CheckEncoding(view);
}

absl::Status CheckStreamed(grpc::ByteBuffer* message, const WireLimits& limits) {
  if (!message->Valid()) return absl::InvalidArgumentError("the stream carries an invalid message");
  return CheckView(MessageView(message), limits);
}

std::string HexOf(const TraceId& id) { return absl::BytesToHexString({id.data(), id.size()}); }

}  // namespace

absl::Status DrainingError() { return absl::UnavailableError("the server is draining; another replica will serve"); }

absl::Status NoMessageError() { return absl::InvalidArgumentError("message: is absent; must be there once"); }

absl::Status FrontDoor::Decode(const grpc_byte_buffer* message, const WireLimits& limits, DecodedRequest* request) {
  const MessageView view(message);
  if (absl::Status status = CheckView(view, limits); !status.ok()) return status;
  DecodeRequest(view.slices(), limits, request);
  return request->status;
}

absl::Status FrontDoor::Decode(const grpc_byte_buffer* message, const WireLimits& limits, InferRequest* request) {
  const MessageView view(message);
  if (absl::Status status = CheckView(view, limits); !status.ok()) return status;
  DecodeInferRequest(view.slices(), limits, request);
  return request->status;
}

absl::Status FrontDoor::Decode(grpc::ByteBuffer* message, const WireLimits& limits, InferRequest* request) {
  if (absl::Status status = CheckStreamed(message, limits); !status.ok()) return status;
  (void)Decode(MessageView::Raw(message), limits, request);
  return absl::OkStatus();
}

absl::Status FrontDoor::Decode(grpc::ByteBuffer* message, const WireLimits& limits, std::optional<MessageView>* view,
                               StreamRequestReader* reader) {
  if (absl::Status status = CheckStreamed(message, limits); !status.ok()) return status;
  return reader->Begin(view->emplace(message).slices(), limits);
}

absl::Status FrontDoor::RefuseBytes() {
  return Counted(RefuseReason::kConnectionBytes,
                 absl::ResourceExhaustedError("the connection's unanswered requests hold "
                                              "max_in_flight_bytes_per_connection; try again when some are answered"));
}

void FrontDoor::RefuseStreamed(Method method, const absl::Status& status, TimePoint now) {
  CountFinished(SampleOf(method, Counted(RefuseReason::kInvalid, status), now, now, nullptr));
}

void FrontDoor::ReportSlow(const RequestSample& sample, std::uint64_t id, const Answer* answer,
                           std::string_view traceparent, const std::string& peer) {
  const std::shared_ptr<Connection> connection = ConnectionOf(peer);
  if (const auto context = ParseTraceparent(traceparent)) recorder_.InTrace(sample, HexOf(context->place.trace_id));
  state_.slow_requests.Report(sample, id, answer, traceparent, connection == nullptr ? peer : connection->peer());
}

void FrontDoor::Trace(const RequestSample& sample, std::uint64_t id, const Answer* answer, const TraceContext& parent,
                      std::string trace_state, const std::string& peer) {
  const std::shared_ptr<Connection> connection = ConnectionOf(peer);
  const TraceId trace = spans_->Record(parent, std::move(trace_state),
                                       connection == nullptr ? std::string() : connection->peer(), sample, id, answer);
  recorder_.InTrace(sample, HexOf(trace));
}

}  // namespace softmax::server
