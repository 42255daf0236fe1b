#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "client/softmax_client/client_core.h"
#include "client/softmax_client/request.h"

namespace softmax::client {

// One Softmax call through all its attempts, without the running of them, which is the caller's: blocking or by events.
// Before a large tensor the first attempt may be to ask the server for its limits. Not thread-safe.
//
//   do { BeginAttempt (false: it has ended), run method() with message() over channel(), EndAttempt } while there is a
//   delay to wait for
class UnaryCall {
 public:
  // The request has been checked. Borrows the input and what options refer to until ReleaseMessage.
  UnaryCall(ClientCore& core, const TensorView& input, const SoftmaxOptions& options);

  // INVALID_ARGUMENT or the like: it is known already that the server would not take it.
  absl::Status CheckLimits();

  // False: the attempt must not be made, and the call has ended.
  bool BeginAttempt(grpc::ClientContext* context);
  const std::shared_ptr<grpc::Channel>& channel() const { return connection_.channel; }
  const char* method() const { return asking_ ? kGetServerInfoMethod : kSoftmaxMethod; }
  const grpc::ByteBuffer& message() const { return asking_ ? nothing_ : message_; }

  // Takes in how the attempt ended. How long to wait before the next; nothing: the call has ended.
  std::optional<std::chrono::nanoseconds> EndAttempt(const grpc::Status& status, const grpc::ClientContext& context,
                                                     const grpc::ByteBuffer& response);
  // Instead of another attempt.
  void EndCancelled();

  // Drops all of the call's own references to the caller's memory; gRPC may still have some, which `loan` tells.
  std::shared_ptr<Loan> ReleaseMessage();
  // Forgets its connection, and has the pool forget it too.
  void AbandonConnection();

  // After the end.
  const absl::Status& status() const { return status_; }
  absl::StatusOr<Tensor> TakeTensor() const;

 private:
  std::optional<std::chrono::nanoseconds> EndQuestion(const grpc::Status& status, const grpc::ClientContext& context,
                                                      const grpc::ByteBuffer& response);
  std::optional<absl::Status> KnownLimits() const;
  void SetMessage(std::string header);
  std::optional<std::chrono::nanoseconds> Failed(absl::Status status);
  void End(absl::Status status);
  const std::string& address() const { return core_.pool.AddressOf(connection_); }

  ClientCore& core_;
  TensorView input_;        // its shape is the caller's for no longer than the constructor
  SoftmaxOptions options_;  // and so are its lengths
  const Placement callers_;
  Placement placement_;
  const std::string fallback_;  // the header with which the pool's part of placement_ is done without
  ExpectedAnswer expected_;
  const std::chrono::nanoseconds timeout_;
  const RetryPlan::Clock::time_point deadline_;
  RetryPlan plan_;
  Resends resends_;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer nothing_;
  std::shared_ptr<Loan> loan_;
  Connection connection_;
  bool asking_ = false;
  int sent_ = 0;  // attempts of the call itself
  absl::Status status_;
  std::optional<ReceivedPieces> received_;
  ResponseFields fields_;
};

}  // namespace softmax::client
