#include "common/wire/encode.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/wire/decode.h"
#include "common/wire/put.h"
#include "common/wire/tags.h"

// Writes what the generated serializer would: fields in number order, scalars of value 0 left out,
// integers in their shortest form.
namespace softmax {
namespace {

std::size_t TimingSize(const AnswerTiming& timing) {
  return ScalarSize(timing.queue_ns) + ScalarSize(timing.batch_ns) + ScalarSize(timing.execution_ns) +
         ScalarSize(timing.batch_rows);
}

char* PutTiming(const AnswerTiming& timing, char* at) {
  at = PutScalar(kTimingQueue, timing.queue_ns, at);
  at = PutScalar(kTimingBatch, timing.batch_ns, at);
  at = PutScalar(kTimingExecution, timing.execution_ns, at);
  return PutScalar(kTimingBatchRows, timing.batch_rows, at);
}

std::size_t ShapeSize(const DecodedRequest& request) {
  std::size_t size = 0;
  for (std::uint32_t i = 0; i < request.rank; ++i) {
    size += VarintSize(static_cast<std::uint64_t>(request.shape[i]));
  }
  return size;
}

std::size_t PlaceSize(const WirePlace& place) { return BlockSize(place.region.size()) + ScalarSize(place.offset); }

char* PutPlace(std::uint32_t tag, const WirePlace& place, char* at) {
  at = PutBlockStart(tag, PlaceSize(place), at);
  at = PutBlockStart(kPlaceRegion, place.region.size(), at);
  std::memcpy(at, place.region.data(), place.region.size());
  return PutScalar(kPlaceOffset, place.offset, at + place.region.size());
}

}  // namespace

void EncodeAnswerHeader(const DecodedRequest& request, const AnswerTiming& timing, bool in_stream, std::string* header,
                        AnswerParts* parts) {
  const TensorSpec& spec = request.spec;
  const auto dtype = static_cast<std::uint64_t>(spec.output_type);
  const std::uint64_t tensor = spec.output_in_region ? 0 : spec.tensor_bytes();
  const bool has_summary = spec.summary.any();
  const SummaryLayout layout = has_summary && !spec.summary_in_region ? spec.summary_layout() : SummaryLayout{};
  const std::size_t timing_size = TimingSize(timing);
  const std::size_t shape_size = ShapeSize(request);
  const std::uint64_t output_size = ScalarSize(dtype) + BlockSize(shape_size) +
                                    (spec.output_in_region ? BlockSize(PlaceSize(request.output_place)) : 0) +
                                    (tensor == 0 ? 0 : BlockSize(tensor));
  std::uint64_t summary_size = spec.summary_in_region ? BlockSize(PlaceSize(request.summary_place)) : 0;
  for (const std::uint64_t bytes : layout.bytes) summary_size += bytes == 0 ? 0 : BlockSize(bytes);
  const std::uint64_t element_size = ScalarSize(request.id) + BlockSize(timing_size) +
                                     (has_summary ? BlockSize(summary_size) : 0) +
                                     (spec.has_tensor() ? BlockSize(output_size) : 0);
  const std::uint64_t size = in_stream ? BlockSize(element_size) : element_size;
  char* at = Extend(header, size - tensor - layout.payload);
  parts->count = 0;
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes, bool of_summary) {
    const auto end = static_cast<std::size_t>(at - header->data());
    parts->part[parts->count++] = {end, offset, bytes, of_summary};
  };
  if (in_stream) at = PutBlockStart(kStreamElement, element_size, at);
  at = PutScalar(kResponseId, request.id, at);
  at = PutBlockStart(kResponseTiming, timing_size, at);
  at = PutTiming(timing, at);
  if (has_summary) at = PutBlockStart(kResponseSummary, summary_size, at);
  for (std::uint32_t i = 0; i < SummaryLayout::kParts; ++i) {
    if (layout.bytes[i] == 0) continue;
    at = PutBlockStart(kSummaryTopValues + (i << 3), layout.bytes[i], at);
    add(layout.offset[i], layout.bytes[i], true);
  }
  if (spec.summary_in_region) at = PutPlace(kSummaryPlace, request.summary_place, at);
  if (!spec.has_tensor()) return;
  at = PutBlockStart(kResponseOutput, output_size, at);
  at = PutScalar(kTensorDtype, dtype, at);
  at = PutBlockStart(kTensorShapePacked, shape_size, at);
  for (std::uint32_t i = 0; i < request.rank; ++i) at = PutVarint(static_cast<std::uint64_t>(request.shape[i]), at);
  if (spec.output_in_region) at = PutPlace(kTensorPlace, request.output_place, at);
  if (tensor == 0) return;
  at = PutBlockStart(kTensorData, tensor, at);
  add(0, tensor, false);
}

void EncodeStreamError(std::uint64_t id, const absl::Status& status, std::uint32_t retry_after_ms, std::string* out) {
  const std::string_view text(status.message().data(), status.message().size());
  const auto code = static_cast<std::uint64_t>(CodeNumber(status));
  const std::size_t status_size =
      ScalarSize(code) + (text.empty() ? 0 : BlockSize(text.size())) + ScalarSize(retry_after_ms);
  const std::size_t element_size = ScalarSize(id) + BlockSize(status_size);
  char* at = Extend(out, BlockSize(element_size));
  at = PutBlockStart(kStreamElement, element_size, at);
  at = PutScalar(kResponseId, id, at);
  at = PutBlockStart(kResponseStatus, status_size, at);
  at = PutScalar(kStatusCode, code, at);
  if (!text.empty()) at = PutText(text, PutBlockStart(kStatusMessage, text.size(), at));
  PutScalar(kStatusRetryAfter, retry_after_ms, at);
}

}  // namespace softmax
