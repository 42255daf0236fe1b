#include "client/softmax_client/unary_call.h"

#include <algorithm>

#include "client/softmax_client/failure.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kQuestionPatience(500);

}  // namespace

UnaryCall::UnaryCall(ClientCore& core, const TensorView& input, const SoftmaxOptions& options)
    : core_(core),
      input_(input),
      options_(options),
      callers_(CallersPlacement(core.regions, input, options)),
      placement_(WithPool(core, callers_, input, options)),
      fallback_(placement_.pooled ? HeaderOf(input, options, callers_, 0, Framing::kUnary) : ""),
      expected_(input, options, placement_),
      timeout_(options.timeout.value_or(core.options.deadline)),
      deadline_(RetryPlan::Clock::now() + timeout_),
      plan_(core.options.retry, core.budget, deadline_) {
  SetMessage(HeaderOf(input, options, placement_, 0, Framing::kUnary));
  input_.shape = {};
  options_.lengths = {};
  options_.summary.indices = {};
}

void UnaryCall::SetMessage(std::string header) {
  OutgoingRequest request = WithTensor(std::move(header), placement_.InMessage(input_.data));
  loan_ = std::move(request.loan);
  message_ = grpc::ByteBuffer(request.slices.data(), request.slices.size());
}

absl::Status UnaryCall::CheckLimits() {
  const auto known = KnownLimits();
  asking_ = !known.has_value();
  if (asking_) {
    const grpc::Slice empty;
    nothing_ = grpc::ByteBuffer(&empty, 1);
  }
  return known.value_or(absl::OkStatus());
}

std::optional<absl::Status> UnaryCall::KnownLimits() const {
  return core_.server.CheckLimits(input_, options_, RetryPlan::Clock::now(), placement_.travelling());
}

bool UnaryCall::BeginAttempt(grpc::ClientContext* context) {
  // Elsewhere than where it has just failed, if there is an elsewhere.
  connection_ = core_.pool.Next(connection_.channel ? connection_.address : kAvoidNone);
  // A server that leaves the question open must not cost the call its answer.
  const absl::Status prepared = core_.Prepare(
      context, asking_ ? std::min(deadline_, RetryPlan::Clock::now() + kQuestionPatience) : deadline_, options_.trace);
  if (prepared.ok()) return true;
  if (sent_ > 0) {
    End(prepared);
  } else {
    status_ = prepared;  // what was never sent does not count as a call
  }
  return false;
}

std::optional<std::chrono::nanoseconds> UnaryCall::EndAttempt(const grpc::Status& status,
                                                              const grpc::ClientContext& context,
                                                              const grpc::ByteBuffer& response) {
  if (asking_) return EndQuestion(status, context, response);
  ++sent_;
  if (!status.ok()) return Failed(core_.StatusOf({status, context, connection_}, timeout_));
  received_.emplace(response);
  absl::Status answered = DecodeResponse(received_->pieces(), &fields_);
  if (answered.ok()) answered = CheckAnswer(fields_, expected_);
  if (!answered.ok()) return Failed(WithTarget(address(), answered));
  core_.counters.AttemptEnded(absl::StatusCode::kOk, sent_ > 1);
  End(absl::OkStatus());
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> UnaryCall::EndQuestion(const grpc::Status& status,
                                                               const grpc::ClientContext& context,
                                                               const grpc::ByteBuffer& response) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const bool in_time = RetryPlan::Clock::now() < deadline_;
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kCancelled ||
      (code == absl::StatusCode::kDeadlineExceeded && !in_time)) {
    ++sent_;
    return Failed(core_.StatusOf({status, context, connection_}, timeout_));
  }
  asking_ = false;
  const auto info = status.ok() ? DecodeServerInfo(ReceivedPieces(response).pieces()) : std::nullopt;
  if (!info) {
    // Without a connection it has not even been asked; another call will.
    if (channel()->GetState(false) == GRPC_CHANNEL_READY) core_.server.CannotTell();
    return std::chrono::nanoseconds(0);
  }
  core_.server.Learn(address(), *info, RetryPlan::Clock::now());
  const absl::Status known = KnownLimits().value_or(absl::OkStatus());
  if (known.ok()) return std::chrono::nanoseconds(0);
  End(known);
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> UnaryCall::Failed(absl::Status status) {
  if (status.code() == absl::StatusCode::kCancelled && options_.cancel.stop_requested()) {
    status = absl::CancelledError(address() + ": cancelled by the caller");
  }
  placement_.Failed(status);
  if (placement_.pooled && status.code() == absl::StatusCode::kNotFound) {
    placement_ = callers_;
    expected_.FallBack();
    SetMessage(fallback_);
    --sent_;
    return std::chrono::nanoseconds(0);
  }
  if (IsUnseen(status)) {
    if (const auto delay = resends_.Next(RandomFraction())) {
      --sent_;
      return delay;
    }
  }
  core_.counters.AttemptEnded(status.code(), sent_ > 1);
  std::optional<std::chrono::nanoseconds> delay;
  if (placement_.MayRepeat(status)) {
    const AttemptFailure failure = core_.FailureOf(status.code(), RetryAdviceOf(status));
    delay = plan_.NextDelay(failure, RetryPlan::Clock::now(), RandomFraction());
  }
  if (delay && options_.cancel.stop_requested()) {
    EndCancelled();
    return std::nullopt;
  }
  if (delay) return delay;
  End(plan_.WithAttemptCount(status));
  return std::nullopt;
}

void UnaryCall::EndCancelled() { End(absl::CancelledError(address() + ": cancelled by the caller")); }

void UnaryCall::End(absl::Status status) {
  status_ = std::move(status);
  if (status_.ok()) core_.budget.OnSuccess();
  core_.counters.CallEnded(status_.code(), plan_.throttled());
}

std::shared_ptr<Loan> UnaryCall::ReleaseMessage() {
  message_.Clear();
  return loan_;
}

void UnaryCall::AbandonConnection() {
  core_.pool.Abandon(connection_.channel);
  connection_.channel.reset();
}

absl::StatusOr<Tensor> UnaryCall::TakeTensor() const {
  if (!status_.ok()) return status_;
  return client::TakeTensor(received_->pieces(), fields_, expected_);
}

}  // namespace softmax::client
