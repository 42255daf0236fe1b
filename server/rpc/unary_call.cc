#include "server/rpc/unary_call.h"

#include <algorithm>
#include <string>

#include "server/rpc/message_view.h"
#include "server/rpc/request_rules.h"
#include "server/rpc/status.h"

namespace softmax::server {

void UnaryCall::Arm(QueueThread& thread) {
  auto* call = new UnaryCall(thread);
  thread.server().softmax.RequestSoftmax(&call->context_, &call->message_, &call->responder_, thread.queue(),
                                         thread.queue(), static_cast<Tag*>(call));
}

UnaryCall::~UnaryCall() {
  if (listed_) thread_.answering().erase(place_);
  if (state_ != State::kWaiting) thread_.state().active_calls.Add(-1);
}

void UnaryCall::Proceed(bool ok) {
  if (state_ == State::kWaiting && ok) {
    Arm(thread_);
    state_ = State::kRunning;
    thread_.state().active_calls.Add(1);
    Handle();
    return;
  }
  delete this;  // the server shuts down, or the answer is out (or given up)
}

absl::Status UnaryCall::Decode() {
  if (!message_.Valid()) {
    return absl::InvalidArgumentError("the call carries no message; expected one SoftmaxRequest");
  }
  MessageView view(&message_);
  if (absl::Status status = CheckEncoding(view); !status.ok()) return status;
  DecodeRequest(view.slices(), thread_.state().limits, &request_);
  return request_.status;
}

void UnaryCall::Handle() {
  arrived_ = SteadyClock::now();
  thread_.recorder().RequestArrived(Method::kSoftmax);
  thread_.state().requests_in_flight.Add(1);
  if (thread_.state().draining.load(std::memory_order_relaxed)) {
    thread_.recorder().RequestRejected(RejectReason::kDraining);
    FinishWithError(DrainingError(), arrived_);
    return;
  }
  if (absl::Status status = thread_.Admit(context_); !status.ok()) {
    FinishWithError(status, arrived_);
    return;
  }
  if (absl::Status status = Decode(); !status.ok()) {
    thread_.recorder().RequestRejected(RejectReason::kInvalid);
    FinishWithError(status, arrived_);
    return;
  }
  spec_ = request_.spec;
  deadline_ = std::min(DeadlineOf(context_), DeadlineAfter(arrived_, request_.timeout_us));
  connection_ = thread_.ConnectionOf(context_);
  thread_.turns().Submit(this, caller(), Turns::Kind::kUnary, arrived_);
}

void UnaryCall::CopyInput(std::byte* destination) {
  {
    MessageView view(&message_);
    CopyFromSlices(view.slices(), request_.payload_offset, spec_.input_bytes(), destination);
  }
  message_.Clear();  // gives the received bytes back to the transport's quota
}

void UnaryCall::Complete(const Answer& answer) {
  const AnswerTogether together(together_ ? connection_.get() : nullptr);
  answered_at_ = SteadyClock::now();
  message_.Clear();  // if it was lent; the next message can have its memory
  thread_.turns().Done(*this, caller(), Turns::Kind::kUnary, answer.ran, answered_at_);
  if (!answer.status.ok()) {
    AddPushback(&context_, answer.retry_after_ms);
    Account(static_cast<int>(answer.status.code()), answered_at_, &answer);
    state_ = State::kAnswering;
    responder_.FinishWithError(ToGrpcStatus(answer.status), static_cast<Tag*>(this));
    return;
  }
  if (deadline_ <= answered_at_) {
    FinishWithError(absl::DeadlineExceededError("the deadline passed while the request ran"), answered_at_);
    return;
  }
  const std::uint64_t bytes = spec_.output_bytes();
  if (AnswerSender::MayReference(bytes)) {
    place_ = thread_.answering().insert(thread_.answering().end(), this);
    listed_ = true;
  }
  static thread_local std::string header;
  header.clear();
  EncodeAnswerHeader(request_, TimingOf(answer), /*in_stream=*/false, &header);
  AnswerSender& sender = thread_.sender();
  sender.Append(header, answer.output, bytes, answer.span, connection_, answered_at_);
  thread_.recorder().PayloadCopiedIn(copied_bytes());
  Account(grpc::StatusCode::OK, answered_at_, &answer);
  state_ = State::kAnswering;
  responder_.Finish(sender.Take(), grpc::Status::OK, static_cast<Tag*>(this));
}

void UnaryCall::FinishWithError(const absl::Status& status, TimePoint now) {
  Account(static_cast<int>(status.code()), now, nullptr);
  state_ = State::kAnswering;
  responder_.FinishWithError(ToGrpcStatus(status), static_cast<Tag*>(this));
}

void UnaryCall::Account(int code, TimePoint now, const Answer* answer) {
  thread_.state().requests_in_flight.Add(-1);
  const RequestSample sample = SampleOf(Method::kSoftmax, code, arrived_, now, answer);
  thread_.recorder().RequestFinished(sample);
  thread_.ReportIfSlow(sample, request_.id, answer, context_);
}

}  // namespace softmax::server
