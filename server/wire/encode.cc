#include <cstdint>
#include <string>
#include <string_view>

#include "server/wire/put.h"
#include "server/wire/tags.h"
#include "server/wire/wire.h"

// Writes what the generated serializer would: fields in number order, scalars of value 0 left out,
// integers in their shortest form.
namespace softmax::server {
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

}  // namespace

void EncodeAnswerHeader(const DecodedRequest& request, const AnswerTiming& timing, bool in_stream,
                        std::string* header) {
  const auto dtype = static_cast<std::uint64_t>(request.spec.output_type);
  const std::uint64_t payload = request.spec.output_bytes();
  const std::size_t timing_size = TimingSize(timing);
  const std::size_t shape_size = ShapeSize(request);
  const std::uint64_t output_size = ScalarSize(dtype) + BlockSize(shape_size) + (payload == 0 ? 0 : BlockSize(payload));
  const std::uint64_t element_size = ScalarSize(request.id) + BlockSize(timing_size) + BlockSize(output_size);
  const std::uint64_t size = in_stream ? BlockSize(element_size) : element_size;
  char* at = Extend(header, size - payload);
  if (in_stream) at = PutBlockStart(kStreamElement, element_size, at);
  at = PutScalar(kResponseId, request.id, at);
  at = PutBlockStart(kResponseTiming, timing_size, at);
  at = PutTiming(timing, at);
  at = PutBlockStart(kResponseOutput, output_size, at);
  at = PutScalar(kTensorDtype, dtype, at);
  at = PutBlockStart(kTensorShapePacked, shape_size, at);
  for (std::uint32_t i = 0; i < request.rank; ++i) at = PutVarint(static_cast<std::uint64_t>(request.shape[i]), at);
  if (payload > 0) PutBlockStart(kTensorData, payload, at);
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

}  // namespace softmax::server
