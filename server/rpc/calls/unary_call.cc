#include "server/rpc/calls/unary_call.h"

#include <algorithm>
#include <string>

#include "server/rpc/calls/request_rules.h"
#include "server/rpc/queue/message_view.h"

namespace softmax::server {

void UnaryCall::Arm(QueueThread& thread) {
  auto* call = new UnaryCall(thread);
  call->call_.Request(thread.server().grpc(), thread.server().softmax.softmax(), thread.queue());
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
  // As gRPC says it of other methods.
  if (call_.message() == nullptr) return absl::InternalError("Unable to parse request");
  const MessageView view(call_.message());
  if (absl::Status status = CheckEncoding(view); !status.ok()) return status;
  DecodeRequest(view.slices(), thread_.state().limits, &request_);
  return request_.status;
}

void UnaryCall::Handle() {
  arrived_ = SteadyClock::now();
  thread_.recorder().RequestArrived(Method::kSoftmax);
  thread_.state().requests_in_flight.Add(1);
  if (thread_.state().draining.load(std::memory_order_relaxed)) {
    thread_.recorder().RequestRefused(RefuseReason::kDraining);
    FinishWithError(DrainingError(), arrived_);
    return;
  }
  if (absl::Status status = thread_.Authorize(call_); !status.ok()) {
    FinishWithError(status, arrived_);
    return;
  }
  if (absl::Status status = Decode(); !status.ok()) {
    thread_.recorder().RequestRefused(RefuseReason::kInvalid);
    FinishWithError(status, arrived_);
    return;
  }
  spec_ = request_.spec;
  deadline_ = std::min(DeadlineOf(call_.raw_deadline()), DeadlineAfter(arrived_, request_.timeout_us));
  connection_ = thread_.ConnectionOf(call_.peer());
  thread_.admission().Submit(this, share(), AdmissionQueue::Kind::kUnary, arrived_);
}

void UnaryCall::CopyInput(std::byte* destination) {
  CopyFromSlices(MessageView(call_.message()).slices(), request_.payload_offset, spec_.input_bytes(), destination);
  call_.ClearMessage();
}

void UnaryCall::Complete(const Answer& answer) {
  const CorkScope together(together_ ? connection_.get() : nullptr);
  answered_at_ = SteadyClock::now();
  call_.ClearMessage();  // if it was lent; the next message can have its memory
  if (!answer.status.ok()) {
    Account(static_cast<int>(answer.status.code()), answered_at_, &answer);
    state_ = State::kAnswering;
    call_.FinishWithError(answer.status, answer.retry_after_ms);
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
  call_.Finish(sender.Message());
}

void UnaryCall::FinishWithError(const absl::Status& status, TimePoint now) {
  Account(static_cast<int>(status.code()), now, nullptr);
  state_ = State::kAnswering;
  call_.FinishWithError(status, /*retry_after_ms=*/0);
}

void UnaryCall::Account(int code, TimePoint now, const Answer* answer) {
  thread_.state().requests_in_flight.Add(-1);
  const RequestSample sample = SampleOf(Method::kSoftmax, code, arrived_, now, answer);
  thread_.recorder().RequestFinished(sample);
  thread_.ReportIfSlow(sample, request_.id, answer, call_);
}

}  // namespace softmax::server
