#include "client/loadgen/send/verifier.h"

#include <functional>
#include <numeric>

#include "client/loadgen/plan/oip_message.h"
#include "client/softmax_client/channel.h"
#include "kernels/reference.h"

namespace softmax::client {
namespace {

constexpr std::uint64_t kMaxQueuedBytes = 128u << 20;

void Increment(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// The tensor, then the summary's parts.
std::vector<std::byte> PayloadOf(const Tensor& answer) {
  std::vector<std::byte> payload(answer.data().begin(), answer.data().end());
  for (int part = 0; part < Summary::kParts; ++part) {
    const auto bytes = answer.summary().bytes(static_cast<Summary::Part>(part));
    payload.insert(payload.end(), bytes.begin(), bytes.end());
  }
  return payload;
}

// Whether an answer has that payload.
bool EqualsKnown(Pieces pieces, const ResponseFields& fields, std::span<const std::byte> known) {
  if (fields.bytes() != known.size()) return false;  // it has more than was asked for
  if (!EqualsPieces(pieces, fields.payload_offset, known.first(fields.payload_bytes))) return false;
  known = known.subspan(fields.payload_bytes);
  for (std::size_t i = 0; i < fields.part_bytes.size(); ++i) {
    if (!EqualsPieces(pieces, fields.part_offset[i], known.first(fields.part_bytes[i]))) return false;
    known = known.subspan(fields.part_bytes[i]);
  }
  return true;
}

// For the judge, who only reads it.
kernels::SummarySegment SummaryOf(const kernels::Segment& rows, const Variant& variant, const Summary& summary) {
  const auto place_of = [&summary](Summary::Part part) {
    const auto bytes = summary.bytes(part);
    return bytes.empty() ? nullptr : const_cast<std::byte*>(bytes.data());
  };
  kernels::SummarySegment segment;
  segment.rows = rows;
  segment.top_k = static_cast<std::int32_t>(variant.answer.top_k);
  segment.top_values = place_of(Summary::kTopValues);
  segment.top_indices = reinterpret_cast<std::int32_t*>(place_of(Summary::kTopIndices));
  segment.log_sum_exp = place_of(Summary::kLogSumExp);
  segment.maximum = place_of(Summary::kMaximum);
  segment.entropy = place_of(Summary::kEntropy);
  return segment;
}

}  // namespace

Verifier::Verifier(const LoadOptions& options, const Workload& workload, ProcessTally& tally)
    : options_(options), workload_(workload), tally_(tally), known_(workload.variants().size()), thread_([this] {
        Run();
      }) {}

Verifier::~Verifier() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_thread_.notify_one();
  thread_.join();
}

void Verifier::Submit(Item item) {
  const std::uint64_t bytes = item.bytes();
  {
    MutexLock lock(mu_);
    while (!queue_.empty() && queued_bytes_ + bytes > kMaxQueuedBytes) wake_senders_.wait(mu_);
    queued_bytes_ += bytes;
    queue_.push_back(std::move(item));
  }
  wake_thread_.notify_one();
}

bool Verifier::Pop(Item* item) {
  MutexLock lock(mu_);
  while (!stopping_ && queue_.empty()) wake_thread_.wait(mu_);
  if (queue_.empty()) return false;
  *item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void Verifier::Run() {
  for (Item item; Pop(&item);) {
    const std::uint64_t bytes = item.bytes();
    const std::string problem = Check(item);
    Increment(tally_.verified);
    if (!problem.empty()) {
      Increment(tally_.wrong);
      tally_.first_wrong.Set(problem.c_str());
    }
    item = Item();
    MutexLock lock(mu_);
    queued_bytes_ -= bytes;
    wake_senders_.notify_all();
  }
}

std::string Verifier::Check(Item& item) {
  const Variant& variant = workload_.variants()[item.variant];
  const ReceivedPieces received(item.message);
  ResponseFields fields;
  if (item.fields) {
    fields = *item.fields;
  } else {
    const absl::Status decoded = options_.protocol == Protocol::kOip ? DecodeInferResponse(received.pieces(), &fields)
                                                                     : DecodeResponse(received.pieces(), &fields);
    if (!decoded.ok()) return std::string(decoded.message());
    if (fields.id != variant.id) {
      return "answer has id " + std::to_string(fields.id) + ", its request had " + std::to_string(variant.id);
    }
  }
  ExpectedAnswer expected = item.placed ? item.placed->expected : variant.expected;
  const absl::Status good = CheckAnswer(fields, expected);
  if (!good.ok()) return std::string(good.message());
  if (item.placed) {
    expected.output = item.placed->tensor;
    expected.summary_output = item.placed->summary;
  }
  std::vector<std::byte>& known = known_[item.variant];
  if (!item.placed && !known.empty() && EqualsKnown(received.pieces(), fields, known)) return "";
  const Tensor answer = TakeTensor(received.pieces(), fields, expected);
  if (item.placed && !known.empty() && PayloadOf(answer) == known) return "";
  Increment(tally_.judged);
  std::string problem = JudgeValues(variant, answer);
  if (problem.empty() && known.empty()) known = PayloadOf(answer);
  return problem;
}

std::string Verifier::JudgeValues(const Variant& variant, const Tensor& answer) const {
  // Copied to where elements are aligned.
  const std::vector<std::byte> input(variant.payload().begin(), variant.payload().end());
  const auto axis = variant.shape.begin() + options_.axis.value_or(-1) +
                    (options_.axis.value_or(-1) < 0 ? static_cast<std::int64_t>(variant.shape.size()) : 0);
  kernels::Segment segment;
  segment.input = input.data();
  segment.outer = std::accumulate(variant.shape.begin(), axis, std::int64_t{1}, std::multiplies());
  segment.cols = *axis;
  segment.inner = std::accumulate(axis + 1, variant.shape.end(), std::int64_t{1}, std::multiplies());
  segment.input_stride = segment.output_stride = segment.cols * segment.inner;
  segment.scale = options_.scale.value_or(1.0);
  segment.operation = static_cast<kernels::Operation>(variant.operation);
  const auto input_type = static_cast<kernels::DataType>(variant.dtype);
  const auto output_type = static_cast<kernels::DataType>(variant.expected.dtype);
  kernels::Judgement judgement;
  if (variant.expected.has_summary) {
    judgement = kernels::JudgeSummary(input_type, output_type, SummaryOf(segment, variant, answer.summary()));
  } else {
    segment.output = const_cast<std::byte*>(answer.data().data());  // Judge only reads it
    judgement = kernels::Judge(input_type, output_type, segment);
  }
  if (judgement.ok) return "";
  return "request " + std::to_string(variant.id) + " of shape " + ShapeText(variant.shape) + ": " + judgement.message +
         " (" + std::to_string(judgement.failures) + " elements wrong)";
}

}  // namespace softmax::client
