#include "server/rpc/queue/status.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

namespace softmax::server {
namespace {

std::string TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

TEST(Status, IsGrpcsInBothInterfaces) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (const auto& [status, code] : {std::pair{absl::InvalidArgumentError("x"), grpc::StatusCode::INVALID_ARGUMENT},
                                     {absl::DeadlineExceededError("x"), grpc::StatusCode::DEADLINE_EXCEEDED},
                                     {absl::PermissionDeniedError("x"), grpc::StatusCode::PERMISSION_DENIED},
                                     {absl::ResourceExhaustedError("x"), grpc::StatusCode::RESOURCE_EXHAUSTED},
                                     {absl::UnimplementedError("x"), grpc::StatusCode::UNIMPLEMENTED},
                                     {absl::InternalError("x"), grpc::StatusCode::INTERNAL},
                                     {absl::UnavailableError("x"), grpc::StatusCode::UNAVAILABLE},
                                     {absl::UnauthenticatedError("x"), grpc::StatusCode::UNAUTHENTICATED}}) {
    EXPECT_EQ(ToGrpcStatus(status).error_code(), code);
    EXPECT_EQ(ToGrpcStatus(status).error_message(), "x");
    const StatusOperation sent(status, 0);
    EXPECT_EQ(sent.operation().op, GRPC_OP_SEND_STATUS_FROM_SERVER);
    EXPECT_EQ(static_cast<int>(sent.operation().data.send_status_from_server.status), static_cast<int>(code));
    EXPECT_EQ(TextOf(*sent.operation().data.send_status_from_server.status_details), "x");
    EXPECT_EQ(sent.operation().data.send_status_from_server.trailing_metadata_count, 0u);
  }
}

TEST(Status, SaysWhenToTryAgain) {
  const StatusOperation sent(absl::ResourceExhaustedError("full"), 70);
  const auto& fields = sent.operation().data.send_status_from_server;
  ASSERT_EQ(fields.trailing_metadata_count, 1u);
  EXPECT_EQ(TextOf(fields.trailing_metadata->key), "grpc-retry-pushback-ms");
  EXPECT_EQ(TextOf(fields.trailing_metadata->value), "70");
}

}  // namespace
}  // namespace softmax::server
