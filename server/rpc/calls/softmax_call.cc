#include "server/rpc/calls/softmax_call.h"

#include <algorithm>
#include <string>

#include "server/rpc/calls/call_deadline.h"

namespace softmax::server {

void SoftmaxCall::Arm(ThreadContext& thread) {
  auto* call = new SoftmaxCall(thread);
  call->Offer(thread.softmax);
}

void SoftmaxCall::Submit(TimePoint arrived, TimePoint deadline) {
  spec_ = request_.spec;
  message_bytes_ = request_.encoded_bytes;
  arrived_ = arrived;
  deadline_ = std::min(deadline, DeadlineAfter(arrived, request_.timeout_us));
  thread().admission().Submit(this, share(), CallKind::kUnary, arrived);
}

void SoftmaxCall::CopyInput(std::byte* destination) {
  CopyFromSlices(MessageView(call().message()).slices(), request_.payload_offset, spec_.input_bytes(), destination);
  call().ClearMessage();
}

void SoftmaxCall::Complete(const Answer& answer) {
  const CorkScope together(together_ ? &connection()->cork() : nullptr);
  if (!CanAnswer(answer, deadline_)) return;
  static thread_local std::string header;
  header.clear();
  Piece piece{.places = answer, .memory = {answer.span}};
  EncodeAnswerHeader(request_, TimingOf(answer), /*in_stream=*/false, &header, &piece.parts);
  piece.header = header;
  thread().recorder.Add(Counter::kCopiedIn, copied_bytes());
  Send(answer, {&piece, 1});
}

}  // namespace softmax::server
