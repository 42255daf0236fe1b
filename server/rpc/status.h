#pragma once

#include <absl/status/status.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>

namespace softmax::server {

// The one place where our status becomes gRPC's (the codes have the same numbers).
grpc::Status ToGrpcStatus(const absl::Status& status);

// Adds the standard trailing metadata that tells a client when to try again. Before Finish.
void AddPushback(grpc::ServerContextBase* context, std::uint32_t retry_after_ms);

}  // namespace softmax::server
