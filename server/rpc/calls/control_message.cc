#include "server/rpc/calls/control_message.h"

#include <absl/strings/str_cat.h>
#include <grpcpp/support/slice.h>

#include <vector>

namespace softmax::server {
absl::Status ParseControl(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  if (bytes.Length() > kMaxControlBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the message has ", bytes.Length(), " bytes; this method takes ", "at most ", kMaxControlBytes));
  }
  std::vector<grpc::Slice> slices;
  std::string text;
  if (bytes.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  if (message->ParseFromString(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the message is no ", message->GetTypeName()));
}

grpc::ByteBuffer SerializeControl(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace softmax::server
