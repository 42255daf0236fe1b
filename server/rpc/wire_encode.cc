#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/rpc/wire.h"
#include "server/rpc/wire_tags.h"

// Writes what the generated serializer would: fields in number order, scalars of value 0 left out,
// integers in their shortest form.
namespace softmax::server {
namespace {

constexpr std::size_t VarintSize(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// All our tags have one byte.
constexpr std::size_t ScalarSize(std::uint64_t value) { return value == 0 ? 0 : 1 + VarintSize(value); }
constexpr std::size_t BlockSize(std::uint64_t size) { return 1 + VarintSize(size) + size; }

void AppendVarint(std::uint64_t value, std::string* out) {
  char bytes[10];
  std::size_t count = 0;
  for (; value >= 0x80; value >>= 7) bytes[count++] = static_cast<char>(value | 0x80);
  bytes[count++] = static_cast<char>(value);
  out->append(bytes, count);
}

void AppendScalar(std::uint32_t tag, std::uint64_t value, std::string* out) {
  if (value == 0) return;
  out->push_back(static_cast<char>(tag));
  AppendVarint(value, out);
}

void AppendBlockStart(std::uint32_t tag, std::uint64_t size, std::string* out) {
  out->push_back(static_cast<char>(tag));
  AppendVarint(size, out);
}

std::size_t TimingSize(const AnswerTiming& timing) {
  return ScalarSize(timing.queue_ns) + ScalarSize(timing.batch_ns) + ScalarSize(timing.execution_ns) +
         ScalarSize(timing.batch_rows);
}

void AppendTiming(const AnswerTiming& timing, std::string* out) {
  AppendScalar(kTimingQueue, timing.queue_ns, out);
  AppendScalar(kTimingBatch, timing.batch_ns, out);
  AppendScalar(kTimingExecution, timing.execution_ns, out);
  AppendScalar(kTimingBatchRows, timing.batch_rows, out);
}

std::size_t ShapeSize(const DecodedRequest& request) {
  std::size_t size = 0;
  for (std::uint32_t i = 0; i < request.rank; ++i) {
    size += VarintSize(static_cast<std::uint64_t>(request.shape[i]));
  }
  return size;
}

// A proto3 string has to be UTF-8, or the caller's parser refuses the whole message; a status may
// quote anything.
void AppendText(std::string_view text, std::string* out) {
  for (const char c : text) out->push_back(static_cast<unsigned char>(c) < 0x80 ? c : '?');
}

}  // namespace

void EncodeAnswerHeader(const DecodedRequest& request, const AnswerTiming& timing, bool in_stream,
                        std::string* header) {
  const auto dtype = static_cast<std::uint64_t>(request.spec.output_type);
  const std::uint64_t payload = request.spec.output_bytes();
  const std::size_t timing_size = TimingSize(timing);
  const std::size_t shape_size = ShapeSize(request);
  const std::uint64_t output_size = ScalarSize(dtype) + BlockSize(shape_size) + (payload == 0 ? 0 : BlockSize(payload));
  if (in_stream) {
    AppendBlockStart(kStreamElement, ScalarSize(request.id) + BlockSize(timing_size) + BlockSize(output_size), header);
  }
  AppendScalar(kResponseId, request.id, header);
  AppendBlockStart(kResponseTiming, timing_size, header);
  AppendTiming(timing, header);
  AppendBlockStart(kResponseOutput, output_size, header);
  AppendScalar(kTensorDtype, dtype, header);
  AppendBlockStart(kTensorShapePacked, shape_size, header);
  for (std::uint32_t i = 0; i < request.rank; ++i) {
    AppendVarint(static_cast<std::uint64_t>(request.shape[i]), header);
  }
  if (payload > 0) AppendBlockStart(kTensorData, payload, header);
}

void EncodeStreamError(std::uint64_t id, const absl::Status& status, std::uint32_t retry_after_ms, std::string* out) {
  const std::string_view text(status.message().data(), status.message().size());
  const auto code = static_cast<std::uint64_t>(static_cast<int>(status.code()));
  const std::size_t status_size =
      ScalarSize(code) + (text.empty() ? 0 : BlockSize(text.size())) + ScalarSize(retry_after_ms);
  AppendBlockStart(kStreamElement, ScalarSize(id) + BlockSize(status_size), out);
  AppendScalar(kResponseId, id, out);
  AppendBlockStart(kResponseStatus, status_size, out);
  AppendScalar(kStatusCode, code, out);
  if (!text.empty()) {
    AppendBlockStart(kStatusMessage, text.size(), out);
    AppendText(text, out);
  }
  AppendScalar(kStatusRetryAfter, retry_after_ms, out);
}

}  // namespace softmax::server
