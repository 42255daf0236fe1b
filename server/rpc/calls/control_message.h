#pragma once

#include <absl/status/status.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

namespace softmax::server {

// Messages of calls that bring no tensor: health checks, GetServerInfo, reflection. gRPC has one limit for a server's
// messages, which tensors need, so these are received as bytes and looked at before they are parsed.
constexpr std::size_t kMaxControlBytes = 4096;

// RESOURCE_EXHAUSTED: longer than kMaxControlBytes. INVALID_ARGUMENT: no message of this type.
absl::Status ParseControl(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);
grpc::ByteBuffer SerializeControl(const google::protobuf::MessageLite& message);

// Of a client's own text, in an answer.
constexpr std::size_t kExcerptBytes = 100;

}  // namespace softmax::server
