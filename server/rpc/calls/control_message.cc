#include "server/rpc/calls/control_message.h"

#include <absl/strings/str_cat.h>
#include <grpcpp/support/slice.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/rpc/guard/cut_message.h"

namespace softmax::server {
namespace {

absl::Status CheckSize(std::size_t bytes) {
  if (bytes <= kMaxControlBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the message has ", bytes, " bytes; this method takes at most ", kMaxControlBytes));
}

}  // namespace

absl::Status ParseControl(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  if (absl::Status status = CheckSize(bytes.Length()); !status.ok()) return status;
  std::vector<grpc::Slice> slices;
  std::string text;
  if (bytes.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  const std::span<const std::uint8_t> whole(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  if (const std::optional<std::uint32_t> claimed = ClaimOfCut({&whole, 1})) {
    if (absl::Status status = CheckSize(*claimed); !status.ok()) return status;
  }
  if (message->ParseFromString(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the message is no ", message->GetTypeName()));
}

grpc::ByteBuffer SerializeControl(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace softmax::server
