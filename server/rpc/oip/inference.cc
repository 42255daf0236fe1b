#include "server/rpc/oip/inference.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>

#include "common/wire/whole_message.h"
#include "server/rpc/calls/call_times.h"
#include "server/rpc/oip/class_texts.h"

namespace softmax::server {

Inference::Part::Part(Inference* whole, const InferTensor* tensor, std::shared_ptr<const SharedFile> input)
    : whole_(whole), tensor_(tensor), input_(std::move(input)) {
  spec_ = tensor->request.spec;
  message_bytes_ = spec_.input_bytes();
  arrived_ = whole->arrived_;
  deadline_ = whole->deadline_;
}

void Inference::Part::CopyInput(std::byte* destination) {
  const MessageView message = whole_->owner_->Message();
  if (input_ != nullptr) {
    // What is missing must not be what another request left there.
    is_read_ = input_->Read(tensor_->places->input.offset, spec_.input_bytes(), destination);
    if (!is_read_) std::memset(destination, 0, spec_.input_bytes());
  } else if (tensor_->gathered_pieces == 0) {
    CopyFromSlices(message.slices(), tensor_->request.payload_offset, spec_.input_bytes(), destination);
  } else {
    CopyTypedContents(message.slices(), *tensor_, destination);
  }
  if (whole_->not_copied_.fetch_sub(1, std::memory_order_acq_rel) == 1) whole_->owner_->InputTaken();
}

void Inference::Part::LendInput(InputPieces* pieces) {
  pieces->clear();
  if (input_ == nullptr && tensor_->gathered_pieces == 0) {
    ListPieces(whole_->owner_->Message(), tensor_->request.payload_offset, spec_.input_bytes(), pieces);
  }
}

void Inference::Part::Complete(const Answer& completed) {
  const CorkScope together(cork_);
  answer = completed;
  if (answer.status.ok() && !is_read_) {
    const InferPlace& place = tensor_->places->input;
    answer.status = absl::InvalidArgumentError(
        absl::StrCat("inputs[", place.index, "]: the file of its region has not all of its bytes any more"));
  }
  if (completed.span != nullptr) span = *completed.span;
  whole_->PartCompleted();
}

absl::StatusOr<std::shared_ptr<const SharedFile>> Inference::FindFile(const SharedFiles& files, const InferPlace& place,
                                                                      const char* list) const {
  std::shared_ptr<const SharedFile> file = files.Find(place.region);
  const auto describe = [&](const auto&... words) {
    return absl::StrCat(list, "[", place.index, "].parameters[\"shared_memory_region\"]: ", Quoted(place.region),
                        words...);
  };
  if (file == nullptr) return absl::NotFoundError(describe(": there is no such region of shared memory"));
  if (!file->Contains(place.offset, place.bytes)) {
    return absl::InvalidArgumentError(
        describe(" has ", file->bytes(), " bytes; ", place.bytes, " from offset ", place.offset, " on must be inside"));
  }
  return file;
}

absl::Status Inference::FindFiles(const SharedFiles* files) {
  for (std::size_t i = 0; i < request_.tensors.size() && request_.status.ok(); ++i) {
    const InferPlaces* const places = request_.tensors[i].places.get();
    if (places == nullptr) continue;
    const auto find = [&](const InferPlace& place, const char* list) -> std::shared_ptr<const SharedFile> {
      if (place.region.empty() || !request_.status.ok()) return nullptr;
      absl::StatusOr<std::shared_ptr<const SharedFile>> found = FindFile(*files, place, list);
      if (found.ok()) return std::move(*found);
      request_.status = found.status();
      return nullptr;
    };
    inputs_.resize(request_.tensors.size());
    inputs_[i] = find(places->input, "inputs");
    for (std::size_t kind = 0; kind < kInferOutputKinds; ++kind) {
      auto file = find(places->outputs[kind], "outputs");
      if (file != nullptr) writings_.push_back({std::move(file), i, static_cast<InferOutput>(kind)});
    }
  }
  return request_.status;
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
    parts_.emplace_back(this, &tensor, inputs_.empty() ? nullptr : inputs_[parts_.size()]);
    rest -= std::min(rest, tensor.request.spec.input_bytes());
  }
  parts_.front().AddToMessage(rest);
  // The last of them may end this: nothing of it is touched afterwards.
  for (std::size_t i = 0; i < count; ++i) parts_[i].Submit(admission, share, kind);
}

void Inference::PartCompleted() {
  if (--incomplete_ > 0) return;
  const bool ok = std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.answer.status.ok(); });
  if (!ok || FinishSome()) return TellOwner();
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.charge().answer;
  owed_.emplace(share_, bytes);
  owner_->slices().Add(owner_->connection_of(), [this] {
    if (!FinishSome()) return false;
    owed_.reset();
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

bool Inference::WriteSome() {
  // Some 50 us.
  std::uint64_t left = 256u << 10;
  for (; writing_ < writings_.size(); ++writing_) {
    Writing& writing = writings_[writing_];
    const InferTensor& tensor = request_.tensors[writing.tensor];
    const InferPlace& place = tensor.places->outputs[static_cast<std::size_t>(writing.output)];
    const TensorSpec& spec = tensor.request.spec;
    Answer& answer = parts_[writing.tensor].answer;
    const std::byte* from = answer.output;
    std::uint64_t bytes = spec.tensor_bytes();
    if (writing.output != InferOutput::kTensor) {
      const SummaryLayout layout = spec.summary_layout();
      const SummaryLayout::Part part = kInferParts[static_cast<std::size_t>(writing.output)];
      from = answer.summary + layout.offset[part];
      bytes = layout.bytes[part];
    }
    const std::uint64_t step = std::min(left, bytes - writing.written);
    if (!writing.file->Write(place.offset + writing.written, step, from + writing.written)) {
      answer.status = absl::InvalidArgumentError(
          absl::StrCat("outputs[", place.index, "]: the file of its region cannot be written any more"));
      return true;
    }
    left -= step;
    writing.written += step;
    if (writing.written < bytes) return false;
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
