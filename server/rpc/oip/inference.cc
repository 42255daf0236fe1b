#include "server/rpc/oip/inference.h"

#include <absl/strings/numbers.h>

#include <algorithm>

#include "server/rpc/calls/call_deadline.h"
#include "server/rpc/oip/class_texts.h"

namespace softmax::server {

Inference::Part::Part(Inference* whole, const InferTensor* tensor) : whole_(whole), tensor_(tensor) {
  spec_ = tensor->request.spec;
  message_bytes_ = spec_.input_bytes();
  arrived_ = whole->arrived_;
  deadline_ = whole->deadline_;
}

void Inference::Part::CopyInput(std::byte* destination) {
  const MessageView message = whole_->owner_->Message();
  if (tensor_->gathered_pieces == 0) {
    CopyFromSlices(message.slices(), tensor_->request.payload_offset, spec_.input_bytes(), destination);
  } else {
    CopyTypedContents(message.slices(), *tensor_, destination);
  }
  if (whole_->not_copied_.fetch_sub(1, std::memory_order_acq_rel) == 1) whole_->owner_->InputTaken();
}

void Inference::Part::LendInput(InputPieces* pieces) {
  pieces->clear();
  if (tensor_->gathered_pieces == 0) {
    ListPieces(whole_->owner_->Message(), tensor_->request.payload_offset, spec_.input_bytes(), pieces);
  }
}

void Inference::Part::Complete(const Answer& completed) {
  const CorkScope together(cork_);
  answer = completed;
  if (completed.span != nullptr) span = *completed.span;
  whole_->PartCompleted();
}

void Inference::Submit(AdmissionQueue& admission, ConnectionShare* share, CallKind kind, TimePoint arrived,
                       TimePoint deadline) {
  arrived_ = arrived;
  share_ = share;
  deadline_ = std::min(deadline, DeadlineAfter(arrived, request_.timeout_us));
  const std::size_t count = request_.tensors.size();
  incomplete_ = count;
  not_copied_ = count;
  parts_.reserve(count);
  // What is no tensor's counts to the first.
  std::uint64_t rest = owner_->Message().bytes();
  for (const InferTensor& tensor : request_.tensors) {
    parts_.emplace_back(this, &tensor);
    rest -= std::min(rest, tensor.request.spec.input_bytes());
  }
  parts_.front().AddToMessage(rest);
  // The last of them may end this: nothing of it is touched afterwards.
  for (std::size_t i = 0; i < count; ++i) parts_[i].Submit(admission, share, kind);
}

void Inference::PartCompleted() {
  if (--incomplete_ > 0) return;
  const bool ok = std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.answer.status.ok(); });
  if (!ok || PrintSome()) return TellOwner();
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.charge().answer;
  printed_answer_.emplace(share_, bytes);
  owner_->slices().Add(owner_->connection_of(), [this] {
    if (!PrintSome()) return false;
    printed_answer_.reset();
    TellOwner();
    return true;
  });
}

bool Inference::PrintSome() {
  // Some 50 us.
  constexpr std::int64_t kTextsAStep = 500;
  std::int64_t left = kTextsAStep;
  for (; printing_ < parts_.size(); ++printing_, printed_ = 0) {
    InferTensor& tensor = request_.tensors[printing_];
    if (!tensor.outputs.Has(InferOutput::kClasses)) continue;
    const TensorSpec& spec = tensor.request.spec;
    if (printed_ == 0) tensor.classes.reserve(spec.text_bytes);
    const std::int64_t end = std::min(ClassCount(spec), printed_ + left);
    AppendClassTexts(spec, parts_[printing_].answer.summary, printed_, end, &tensor.classes);
    left -= end - printed_;
    printed_ = end;
    if (end < ClassCount(spec)) return false;
  }
  return true;
}

// The owner may end this.
void Inference::TellOwner() {
  Answer whole = parts_[0].answer;
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const Answer& part = parts_[i].answer;
    if (whole.status.ok()) whole.status = part.status;
    whole.ran = whole.ran && part.ran;
    whole.retry_after_ms = std::max(whole.retry_after_ms, part.retry_after_ms);
    whole.queue = std::max(whole.queue, part.queue);
    whole.batch = std::max(whole.batch, part.batch);
    whole.execution = std::max(whole.execution, part.execution);
    whole.launched = std::max(whole.launched, part.launched);
  }
  owner_->Completed(whole);
}

std::uint64_t Inference::rows() const {
  std::uint64_t rows = 0;
  for (const InferTensor& tensor : request_.tensors) rows += static_cast<std::uint64_t>(tensor.request.spec.rows());
  return rows;
}

std::uint64_t Inference::largest_output() const {
  std::uint64_t largest = 0;
  for (const Part& part : parts_) largest = std::max(largest, part.spec().output_bytes());
  return largest;
}

std::uint64_t Inference::copied_bytes() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.copied_bytes();
  return bytes;
}

std::uint64_t Inference::log_id() const {
  std::uint64_t number = 0;
  return absl::SimpleAtoi(request_.id, &number) ? number : 0;
}

}  // namespace softmax::server
