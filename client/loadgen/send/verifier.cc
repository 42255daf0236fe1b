#include "client/loadgen/send/verifier.h"

#include <cstring>

#include "client/loadgen/plan/oip_message.h"
#include "client/softmax_client/channel.h"
#include "kernels/reference.h"

namespace softmax::client {
namespace {

constexpr std::uint64_t kMaxQueuedBytes = 128u << 20;

void Increment(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

Verifier::Verifier(const LoadOptions& options, const Workload& workload, ProcessTally& tally)
    : options_(options), workload_(workload), tally_(tally), known_(workload.variants().size()), thread_([this] {
        Run();
      }) {}

Verifier::~Verifier() {
  {
    server::MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_thread_.notify_one();
  thread_.join();
}

void Verifier::Submit(std::uint32_t variant, const grpc::ByteBuffer& answer) { Push({variant, answer, std::nullopt}); }

void Verifier::Submit(std::uint32_t variant, ResponseFields fields, const grpc::ByteBuffer& message) {
  Push({variant, message, std::move(fields)});
}

void Verifier::Push(Item item) {
  const std::uint64_t bytes = item.message.Length();
  {
    server::MutexLock lock(mu_);
    while (!queue_.empty() && queued_bytes_ + bytes > kMaxQueuedBytes) wake_senders_.wait(mu_);
    queued_bytes_ += bytes;
    queue_.push_back(std::move(item));
  }
  wake_thread_.notify_one();
}

bool Verifier::Pop(Item* item) {
  server::MutexLock lock(mu_);
  while (!stopping_ && queue_.empty()) wake_thread_.wait(mu_);
  if (queue_.empty()) return false;
  *item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void Verifier::Run() {
  for (Item item; Pop(&item);) {
    const std::uint64_t bytes = item.message.Length();
    const std::string problem = Check(item);
    Increment(tally_.verified);
    if (!problem.empty()) {
      Increment(tally_.wrong);
      tally_.first_wrong.Set(problem.c_str());
    }
    item = Item();
    server::MutexLock lock(mu_);
    queued_bytes_ -= bytes;
    wake_senders_.notify_all();
  }
}

std::string Verifier::Check(const Item& item) {
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
  std::string problem = CheckFields(variant, fields);
  if (!problem.empty()) return problem;

  std::vector<std::byte>& known = known_[item.variant];
  if (!known.empty() && EqualsPieces(received.pieces(), fields.payload_offset, known)) return "";
  std::vector<std::byte> output(fields.payload_bytes);
  server::CopyFromSlices(received.pieces(), fields.payload_offset, output.size(), output.data());
  Increment(tally_.judged);
  problem = JudgeValues(variant, output);
  if (problem.empty() && known.empty()) known = std::move(output);
  return problem;
}

std::string Verifier::CheckFields(const Variant& variant, const ResponseFields& fields) const {
  if (fields.code != 0) {
    return "answer with status OK carries the error " + std::to_string(fields.code) + ": " + fields.message;
  }
  if (!fields.has_output || fields.dtype != static_cast<std::uint64_t>(options_.AnswerType(variant.dtype))) {
    return "answer has element type " + std::to_string(fields.dtype) + ", expected " +
           std::string(NameOf(options_.AnswerType(variant.dtype)));
  }
  const std::vector<std::int64_t>& shape = variant.shape;
  if (!std::equal(shape.begin(), shape.end(), fields.shape.begin(),
                  fields.shape.begin() + static_cast<std::ptrdiff_t>(fields.rank))) {
    return "answer does not have the shape of its request, " + ShapeText(shape);
  }
  if (fields.payload_bytes != variant.answer_bytes) {
    return "answer has " + std::to_string(fields.payload_bytes) + " bytes, expected " +
           std::to_string(variant.answer_bytes);
  }
  return "";
}

std::string Verifier::JudgeValues(const Variant& variant, const std::vector<std::byte>& output) const {
  // Copied to where elements are aligned.
  const std::vector<std::byte> input(variant.payload().begin(), variant.payload().end());
  const Geometry& geometry = variant.geometry;
  kernels::Segment segment;
  segment.input = input.data();
  segment.output = const_cast<std::byte*>(output.data());  // Judge only reads it
  segment.outer = geometry.outer;
  segment.cols = geometry.cols;
  segment.inner = geometry.inner;
  segment.input_stride = segment.output_stride = geometry.cols * geometry.inner;
  segment.scale = options_.scale.value_or(1.0);
  segment.operation = static_cast<kernels::Operation>(variant.operation);
  const kernels::Judgement judgement =
      kernels::Judge(static_cast<kernels::DataType>(variant.dtype),
                     static_cast<kernels::DataType>(options_.AnswerType(variant.dtype)), segment);
  if (judgement.ok) return "";
  return "request " + std::to_string(variant.id) + " of shape " + ShapeText(variant.shape) + ": " + judgement.message +
         " (" + std::to_string(judgement.failures) + " elements wrong)";
}

}  // namespace softmax::client
