#include "server/rpc/queue/status.h"

#include <grpc/slice.h>

#include <string>
#include <string_view>

#include "common/wire/encode.h"

namespace softmax::server {
namespace {

grpc_slice CopiedSlice(std::string_view text) { return grpc_slice_from_copied_buffer(text.data(), text.size()); }

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(CodeNumber(status)), std::string(status.message()));
}

StatusOperation::StatusOperation(const absl::Status& status, std::uint32_t retry_after_ms)
    : message_(CopiedSlice({status.message().data(), status.message().size()})) {
  pushback_.key = grpc_slice_from_static_string("grpc-retry-pushback-ms");
  pushback_.value = CopiedSlice(std::to_string(retry_after_ms));
  operation_.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  auto& sent = operation_.data.send_status_from_server;
  sent.status = static_cast<grpc_status_code>(CodeNumber(status));
  sent.status_details = &message_;
  sent.trailing_metadata = &pushback_;
  sent.trailing_metadata_count = retry_after_ms > 0 ? 1 : 0;
}

StatusOperation::~StatusOperation() {
  grpc_slice_unref(message_);
  grpc_slice_unref(pushback_.value);
}

}  // namespace softmax::server
