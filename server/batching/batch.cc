#include "server/batching/batch.h"

#include <cstring>

#include "server/base/receive_pool.h"

namespace softmax::server {
namespace {

constexpr std::uint64_t AlignUp(std::uint64_t value) {
  return (value + Batch::kAlignment - 1) / Batch::kAlignment * Batch::kAlignment;
}

// Pieces that a client has cut finer than this are copied: each costs the device a look at it.
constexpr std::uint64_t kMeanPieceBytes = 2048;

std::uint64_t ReadableBytes(const InputPieces& pieces) {
  std::uint64_t bytes = 0;
  for (const InputPiece& piece : pieces) bytes += ReceivePool::Contains(piece.data) ? piece.bytes : 0;
  return bytes;
}

bool InPlace(const TensorSpec& spec) { return kernels::SizeOf(spec.input_type) == kernels::SizeOf(spec.output_type); }

// Whether the request has room for its input in the span, which may be its output's alone.
bool HasInputRoom(const TensorSpec& spec) {
  return !spec.input_in_region || (InPlace(spec) && spec.has_tensor() && !spec.output_in_region);
}

}  // namespace

Batch::Need Batch::NeedOf(const TensorSpec& spec) {
  Need need;
  if (HasInputRoom(spec)) need.input = AlignUp(spec.input_bytes());
  need.input += AlignUp(spec.lengths_bytes());
  if (spec.summary.any()) {
    need.input += AlignUp(spec.indices_bytes());
    if (!spec.summary_in_region) need.input += AlignUp(spec.summary_layout().total);
  }
  if (!InPlace(spec) && !spec.output_in_region) need.output = AlignUp(spec.tensor_bytes());
  return need;
}

std::uint64_t Batch::InRegionsOf(const TensorSpec& spec) {
  if (!spec.in_regions()) return 0;
  TensorSpec elsewhere = spec;
  elsewhere.input_in_region = elsewhere.output_in_region = elsewhere.summary_in_region = false;
  return NeedOf(elsewhere).total() - NeedOf(spec).total();
}

Batch::Need Batch::CapacityOf(kernels::DataType input, kernels::DataType output, const BatchLimits& limits) {
  Need capacity;
  capacity.input = limits.bytes;
  const std::size_t in = kernels::SizeOf(input);
  const std::size_t out = kernels::SizeOf(output);
  // Alignment may cost up to 15 bytes a request more than the ratio of the types says.
  if (in != out) capacity.output = limits.bytes / in * out + limits.requests * kAlignment;
  return capacity;
}

void Batch::Open(kernels::DataType input, kernels::DataType output, SpanRef span, Need capacity, TimePoint now) {
  input_type_ = input;
  output_type_ = output;
  span_ = std::move(span);
  capacity_ = capacity;
  input_used_ = output_used_ = in_regions_ = output_base_ = rows_ = work_ = input_payload_ = output_payload_ = 0;
  answers_ = {};
  saved_bytes_ = 0;
  device_ = Region::kHost;
  opened_ = now;
  status = absl::OkStatus();
}

bool Batch::Fits(const TensorSpec& spec, const BatchLimits& limits) const {
  const Need need = NeedOf(spec);
  if (input_used_ + need.input > capacity_.input || output_used_ + need.output > capacity_.output) return false;
  const std::uint64_t in_regions = in_regions_ + InRegionsOf(spec);
  const std::uint64_t most = CapacityOf(input_type_, output_type_, limits).total();
  if (in_regions > 0 && span_bytes() + need.total() + in_regions > most) return false;
  return requests_.size() < limits.requests;
}

bool Batch::ExtendLastSegment(const kernels::Segment& rows, std::uint64_t output) {
  if (segments_.empty() || rows.inner != 1 || rows.lengths != nullptr) return false;
  kernels::Segment& last = segments_.back();
  if (last.inner != 1 || last.lengths != nullptr || last.cols != rows.cols || last.operation != rows.operation ||
      last.scale != rows.scale) {
    return false;
  }
  const std::int64_t elements = last.outer * last.cols;
  const auto input_end =
      reinterpret_cast<std::uint64_t>(last.input) + static_cast<std::uint64_t>(elements) * kernels::SizeOf(input_type_);
  const auto output_end = reinterpret_cast<std::uint64_t>(last.output) +
                          static_cast<std::uint64_t>(elements) * kernels::SizeOf(output_type_);
  if (input_end != reinterpret_cast<std::uint64_t>(rows.input) || output_end != output) return false;
  last.outer += rows.outer;
  return true;
}

// `moves`: the output is relative to output_base_.
void Batch::AddSegment(const kernels::Segment& rows, std::uint64_t output, bool gathered, bool moves) {
  const bool alike = IsLast(gathered_segments_) == gathered && IsLast(moving_segments_) == moves;
  if (alike && ExtendLastSegment(rows, output)) return;
  if (gathered) gathered_segments_.push_back(static_cast<std::uint32_t>(segments_.size()));
  if (moves) moving_segments_.push_back(static_cast<std::uint32_t>(segments_.size()));
  segments_.push_back(rows);
  segments_.back().output = reinterpret_cast<void*>(output);
}

// `offset`: where the request's indices begin in the span, and its summary behind them.
void Batch::AddSummary(PendingRequest* request, const kernels::Segment& rows, std::uint64_t offset, bool gathered) {
  const TensorSpec& spec = request->spec();
  kernels::SummarySegment summary;
  summary.rows = rows;
  summary.top_k = static_cast<std::int32_t>(spec.summary.top_k);
  summary.at = spec.summary.at;
  if (spec.summary.at > 0) {
    std::memcpy(base() + offset, request->indices(), spec.indices_bytes());
    summary.indices = reinterpret_cast<const std::int32_t*>(base() + offset);
    offset += AlignUp(spec.indices_bytes());
  }
  request->summary_offset_ = offset;
  const SummaryLayout layout = spec.summary_layout();
  std::byte* const begin = spec.summary_in_region ? request->regions().summary : base() + offset;
  const auto place = [&](SummaryLayout::Part part) -> void* {
    return layout.bytes[part] == 0 ? nullptr : begin + layout.offset[part];
  };
  summary.top_values = place(SummaryLayout::kTopValues);
  summary.top_indices = static_cast<std::int32_t*>(place(SummaryLayout::kTopIndices));
  summary.values_at = place(SummaryLayout::kValuesAt);
  summary.log_sum_exp = place(SummaryLayout::kLogSumExp);
  summary.maximum = place(SummaryLayout::kMaximum);
  summary.entropy = place(SummaryLayout::kEntropy);
  if (gathered) gathered_summaries_.push_back(static_cast<std::uint32_t>(summaries_.size()));
  summaries_.push_back(summary);
}

// What lies outside the memory that a device can read is copied to its place in the span, and read there; if that is
// most of it, there is nothing to gain.
bool Batch::TryGather(PendingRequest* request, std::uint64_t offset) {
  InputPieces lent;
  request->LendInput(&lent);
  const std::uint64_t bytes = request->spec().input_bytes();
  if (lent.empty() || lent.size() > bytes / kMeanPieceBytes || ReadableBytes(lent) < bytes / 2) return false;
  bool last_copied = false;
  for (const InputPiece& piece : lent) {
    const bool readable = ReceivePool::Contains(piece.data);
    std::byte* const place = span_.address() + offset;
    if (!readable) {
      std::memcpy(place, piece.data, piece.bytes);
      request->copied_ += piece.bytes;
    }
    if (!readable && last_copied) {
      pieces_.back().bytes += piece.bytes;
    } else {
      pieces_.push_back({readable ? piece.data : place, offset, piece.bytes});
    }
    last_copied = !readable;
    offset += piece.bytes;
  }
  return true;
}

void Batch::Add(PendingRequest* request, TimePoint now, bool gather) {
  const TensorSpec& spec = request->spec();
  const RegionPlaces& regions = request->regions();
  const std::uint64_t input = input_used_;
  const std::uint64_t lengths = input + (HasInputRoom(spec) ? AlignUp(spec.input_bytes()) : 0);
  request->copied_ = 0;
  const bool gathered = gather && !spec.input_in_region && TryGather(request, input);
  if (!gathered && !spec.input_in_region) {
    request->CopyInput(base() + input);
    request->copied_ = spec.input_bytes();
  }
  if (spec.has_lengths) std::memcpy(base() + lengths, request->lengths(), spec.lengths_bytes());
  request->placed_ = now;

  kernels::Segment rows;
  rows.input = spec.input_in_region ? regions.input : base() + input;
  if (spec.has_lengths) rows.lengths = reinterpret_cast<const std::uint32_t*>(base() + lengths);
  rows.outer = spec.outer;
  rows.cols = spec.cols;
  rows.inner = spec.inner;
  rows.input_stride = rows.output_stride = spec.cols * spec.inner;
  rows.scale = spec.scale;
  rows.operation = spec.operation;
  if (spec.summary.any()) AddSummary(request, rows, lengths + AlignUp(spec.lengths_bytes()), gathered);
  // Output addresses are relative to the output region until Close knows where it begins; in place, and in a region,
  // they are final.
  const bool moves = !in_place() && !spec.output_in_region;
  request->output_offset_ = in_place() ? input : output_used_;
  if (spec.has_tensor()) {
    const std::byte* const output = spec.output_in_region ? regions.output : base() + input;
    AddSegment(rows, moves ? output_used_ : reinterpret_cast<std::uint64_t>(output), gathered, moves);
  }
  const Need need = NeedOf(spec);
  input_used_ += need.input;
  output_used_ += need.output;
  in_regions_ += InRegionsOf(spec);
  device_ = regions.device;
  rows_ += static_cast<std::uint64_t>(spec.rows());
  work_ += request->charge().own_work();
  input_payload_ += spec.input_bytes();
  output_payload_ += spec.tensor_bytes() + spec.summary_bytes();
  CountAnswer(spec);
  requests_.push_back(request);
}

void Batch::CountAnswer(const TensorSpec& spec) {
  const auto count = [this](AnswerKind kind, bool wanted) { answers_[static_cast<std::size_t>(kind)] += wanted; };
  count(AnswerKind::kTensor, spec.has_tensor());
  count(AnswerKind::kTopK, spec.summary.top_k > 0);
  count(AnswerKind::kIndices, spec.summary.at > 0);
  count(AnswerKind::kLogSumExp, spec.summary.log_sum_exp);
  count(AnswerKind::kEntropy, spec.summary.entropy);
  const std::uint64_t whole = spec.elements() * kernels::SizeOf(spec.output_type);
  if (!spec.has_tensor() && whole > spec.summary_bytes()) saved_bytes_ += whole - spec.summary_bytes();
}

void Batch::Close(CloseReason reason) {
  reason_ = reason;
  if (!in_place()) output_base_ = input_used_;
  for (const std::uint32_t index : moving_segments_) {
    void*& output = segments_[index].output;
    output = base() + output_base_ + reinterpret_cast<std::uint64_t>(output);
  }
  if (span_bytes() == 0) {
    span_.Reset();
  } else {
    span_.Trim(span_bytes());
  }
}

void Batch::Complete(const absl::Status& result, TimePoint now) {
  Answer answer;
  answer.status = result;
  answer.ran = result.ok();
  answer.span = &span_;
  answer.batch_rows = rows_;
  answer.execution = now - launched_;
  answer.launched = launched_;
  const std::byte* const outputs = base() + output_base_;
  for (PendingRequest* request : requests_) request->AnnounceCompletion();
  for (PendingRequest* request : requests_) {
    const TensorSpec& spec = request->spec();
    const bool has_output = spec.has_tensor() && !spec.output_in_region;
    const bool has_summary = spec.summary.any() && !spec.summary_in_region;
    answer.output = has_output ? outputs + request->output_offset_ : nullptr;
    answer.summary = has_summary ? base() + request->summary_offset_ : nullptr;
    answer.queue = request->placed_ - request->arrived();
    answer.batch = launched_ - request->placed_;
    request->Finish(answer);
  }
  requests_.clear();
  segments_.clear();
  pieces_.clear();
  gathered_segments_.clear();
  moving_segments_.clear();
  summaries_.clear();
  gathered_summaries_.clear();
  span_.Reset();
}

BatchSample Batch::Sample(TimePoint now) const {
  return {.answers = answers_,
          .saved_bytes = saved_bytes_,
          .requests = requests_.size(),
          .rows = rows_,
          .input_bytes = input_payload_,
          .output_bytes = output_payload_,
          .reason = reason_,
          .execution = now - launched_};
}

}  // namespace softmax::server
