#include "server/rpc/calls/front_door.h"

#include <absl/strings/str_cat.h>

#include "server/rpc/queue/message_view.h"

namespace softmax::server {
namespace {

// UNIMPLEMENTED, naming the encoding, unless the message came as identity.
absl::Status CheckEncoding(const MessageView& view) {
  const char* encoding = nullptr;
  switch (view.compression()) {
    case GRPC_COMPRESS_NONE:
      return absl::OkStatus();
    case GRPC_COMPRESS_GZIP:
      encoding = "gzip";
      break;
    case GRPC_COMPRESS_DEFLATE:
      encoding = "deflate";
      break;
    default:
      encoding = "unknown";
  }
  return absl::UnimplementedError(
      absl::StrCat("grpc-encoding: ", encoding, " is not accepted; send identity (no compression)"));
}

absl::Status DecodeUnary(const grpc_byte_buffer* message, const WireLimits& limits, DecodedRequest* request) {
  const MessageView view(message);
  if (absl::Status status = CheckEncoding(view); !status.ok()) return status;
  DecodeRequest(view.slices(), limits, request);
  return request->status;
}

absl::Status DecodeStreamed(grpc::ByteBuffer* message, const WireLimits& limits,
                            std::vector<DecodedRequest>* requests) {
  if (!message->Valid()) return absl::InvalidArgumentError("the stream carries an invalid message");
  const MessageView view(message);
  if (absl::Status status = CheckEncoding(view); !status.ok()) return status;
  return DecodeStreamRequest(view.slices(), limits, requests);
}

}  // namespace

absl::Status DrainingError() { return absl::UnavailableError("the server is draining; another replica will serve"); }

absl::Status NoMessageError() { return absl::InvalidArgumentError("message: is absent; must be one SoftmaxRequest"); }

absl::Status FrontDoor::Decode(const grpc_byte_buffer* message, DecodedRequest* request) {
  return Counted(RefuseReason::kInvalid, DecodeUnary(message, state_.limits, request));
}

absl::Status FrontDoor::Decode(grpc::ByteBuffer* message, std::vector<DecodedRequest>* requests) {
  return Counted(RefuseReason::kInvalid, DecodeStreamed(message, state_.limits, requests));
}

void FrontDoor::RefuseStreamed(const DecodedRequest& request, TimePoint now) {
  CountFinished(SampleOf(Method::kSoftmaxStream, Counted(RefuseReason::kInvalid, request.status), now, now, nullptr));
}

void FrontDoor::ReportSlow(const RequestSample& sample, std::uint64_t id, const Answer* answer,
                           const ClientMetadata& metadata, const std::string& peer) {
  const std::shared_ptr<Connection> connection = ConnectionOf(peer);
  state_.slow_requests.Report(sample, id, answer, metadata, connection == nullptr ? peer : connection->peer(),
                              recorder_);
}

}  // namespace softmax::server
