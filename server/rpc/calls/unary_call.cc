#include "server/rpc/calls/unary_call.h"

#include <algorithm>
#include <string>

#include "server/rpc/accept/socket_handoff.h"
#include "server/rpc/calls/call_deadline.h"
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
  if (counts_at_end_) CountAtEnd();
  if (state_ == State::kAnswering && connection_ != nullptr) connection_->account().CallFinished();
  delete this;  // the server shuts down, or the answer is out (or given up)
}

void UnaryCall::Handle() {
  arrived_ = SteadyClock::now();
  FrontDoor& door = thread_.door();
  door.RequestArrived(Method::kSoftmax);
  absl::Status status = door.Enter(call_);
  if (status.ok()) {
    status = call_.message() == nullptr ? NoMessageError() : door.Decode(call_.message(), &request_);
  }
  if (!status.ok()) {
    FinishWithError(status, arrived_);
    return;
  }
  spec_ = request_.spec;
  deadline_ = std::min(DeadlineOf(call_.raw_deadline()), DeadlineAfter(arrived_, request_.timeout_us));
  const std::string peer = call_.peer();
  connection_ = door.ConnectionOf(peer);
  left_early_ = connection_ == nullptr && PlainHandoff::IsPeer(peer);
  thread_.admission().Submit(this, share(), AdmissionQueue::Kind::kUnary, arrived_);
}

void UnaryCall::CopyInput(std::byte* destination) {
  CopyFromSlices(MessageView(call_.message()).slices(), request_.payload_offset, spec_.input_bytes(), destination);
  call_.ClearMessage();
}

void UnaryCall::Complete(const Answer& answer) {
  const CorkScope together(together_ ? &connection_->cork() : nullptr);
  answered_at_ = SteadyClock::now();
  call_.ClearMessage();  // if it was lent; the next message can have its memory
  if (!answer.status.ok()) {
    Account(answer.status, answered_at_, &answer);
    state_ = State::kAnswering;
    call_.FinishWithError(answer.status, answer.retry_after_ms);
    return;
  }
  if (deadline_ <= answered_at_) {
    FinishWithError(absl::DeadlineExceededError("the deadline passed while the request ran"), answered_at_);
    return;
  }
  if (AnswerSender::MayReference(spec_.output_bytes())) {
    place_ = thread_.answering().insert(thread_.answering().end(), this);
    listed_ = true;
  }
  static thread_local std::string header;
  header.clear();
  AnswerParts parts;
  EncodeAnswerHeader(request_, TimingOf(answer), /*in_stream=*/false, &header, &parts);
  AnswerSender& sender = thread_.sender();
  sender.Append(header, parts, answer, answer.span, connection_, answered_at_);
  thread_.recorder().PayloadCopiedIn(copied_bytes());
  Account(answer.status, answered_at_, &answer);
  state_ = State::kAnswering;
  call_.Finish(sender.Message());
}

void UnaryCall::FinishWithError(const absl::Status& status, TimePoint now) {
  Account(status, now, nullptr);
  if (connection_ == nullptr) connection_ = thread_.door().ConnectionOf(call_.peer());
  state_ = State::kAnswering;
  call_.FinishWithError(status, /*retry_after_ms=*/0);
}

void UnaryCall::Account(const absl::Status& status, TimePoint now, const Answer* answer) {
  FrontDoor& door = thread_.door();
  const RequestSample sample = SampleOf(Method::kSoftmax, status, arrived_, now, answer);
  if (!CountsAtEnd()) return door.RequestFinished(sample, request_.id, answer, call_);
  counts_at_end_ = true;
  sample_ = sample;
  door.ReportIfSlow(sample, request_.id, answer, call_);
}

void UnaryCall::CountAtEnd() {
  FrontDoor& door = thread_.door();
  if (given_up_ || call_.cancelled()) {
    const bool late = deadline_ <= SteadyClock::now();
    sample_.code = CodeNumber(late ? absl::DeadlineExceededError("") : absl::CancelledError());
  } else if (call_.message() == nullptr && sample_.code == CodeNumber(NoMessageError())) {
    (void)door.RefuseWithoutMessage();
  }
  door.CountFinished(sample_);
}

}  // namespace softmax::server
