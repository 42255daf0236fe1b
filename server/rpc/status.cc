#include "server/rpc/status.h"

#include <string>

namespace softmax::server {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

void AddPushback(grpc::ServerContextBase* context, std::uint32_t retry_after_ms) {
  if (retry_after_ms == 0) return;
  context->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(retry_after_ms));
}

}  // namespace softmax::server
