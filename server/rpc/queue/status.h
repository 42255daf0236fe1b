#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace softmax::server {

// The one place where our status becomes gRPC's (the codes have the same numbers).
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace softmax::server
