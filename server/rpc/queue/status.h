#pragma once

#include <absl/status/status.h>
#include <grpc/grpc.h>
#include <grpcpp/support/status.h>

#include <cstdint>

// The one place where our status becomes gRPC's. The codes have the same numbers (CodeNumber in common/wire/encode.h).
namespace softmax::server {

grpc::Status ToGrpcStatus(const absl::Status& status);

// The same for the C interface: the operation that sends an error as a call's status. Lives until the operation has
// been started.
class StatusOperation {
 public:
  // `retry_after_ms`: 0 says nothing of it.
  StatusOperation(const absl::Status& status, std::uint32_t retry_after_ms);
  ~StatusOperation();
  StatusOperation(const StatusOperation&) = delete;
  StatusOperation& operator=(const StatusOperation&) = delete;

  const grpc_op& operation() const { return operation_; }

 private:
  grpc_slice message_;
  grpc_metadata pushback_{};
  grpc_op operation_{};
};

}  // namespace softmax::server
