#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/cursor.h"
#include "common/wire/decode.h"
#include "common/wire/encode.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/sliced_input.h"

// libFuzzer over the decoder and what is made of its result. Of the flags of its input (sliced_input.h) bit 0: a
// stream's message (always, in fuzz_stream); bit 1: tight limits.
namespace softmax::server {
namespace {

using softmax::testing::Difference;
using softmax::testing::Require;
using softmax::testing::SlicedInput;
using softmax::testing::SlicedMessage;

bool WellFormed(std::string_view bytes) {
  const SlicedMessage message(bytes);
  WireCursor cursor(message.slices());
  while (!cursor.AtLimit()) {
    std::uint32_t tag;
    if (!cursor.ReadTag(&tag) || !cursor.SkipField(tag, 100)) return false;
  }
  return true;
}

void CheckRefused(const DecodedRequest& request) {
  const std::string_view text(request.status.message().data(), request.status.message().size());
  Require(!text.empty() && text.size() <= 400, "a refusal has a reason of readable length");
  for (const char c : text) Require(c >= 0x20 && c < 0x7f, "a reason is printable");
  std::string out;
  EncodeStreamError(request.id, request.status, 5, &out);
  Require(WellFormed(out), "an error is well-formed");
}

void CheckAccepted(Slices slices, std::uint64_t message_size, const WireLimits& limits, const DecodedRequest& request) {
  const TensorSpec& spec = request.spec;
  Require(request.payload_offset <= message_size, "the payload begins inside the message");
  Require(spec.received_bytes() <= message_size - request.payload_offset, "and ends there");
  Require(!spec.in_regions() || limits.max_tensor_bytes > 0, "a place is taken where there are regions");
  Require(spec.region_bytes() <= 3 * limits.max_tensor_bytes, "what lies in regions is within its limit");
  Require(spec.output_bytes() <= limits.max_response_bytes, "the answer is within its limit");
  Require(request.rank >= 1 && request.rank <= limits.max_rank, "the rank is within its limit");
  Require(spec.outer >= 0 && spec.cols >= 0 && spec.inner >= 0, "no extent is negative");
  Require(static_cast<std::uint64_t>(spec.rows()) <= limits.max_rows, "rows within the limit");
  Require(spec.scale > 0 && std::isfinite(spec.scale), "the scale is finite and positive");
  Require(spec.has_lengths == !request.lengths.empty(), "has_lengths tells of the lengths");
  Require(request.lengths.size() * 4 == spec.lengths_bytes(), "one length per row");
  for (const std::uint32_t length : request.lengths) {
    Require(length <= spec.cols, "no length passes the axis");
  }
  Require(request.indices.size() * 4 == spec.indices_bytes(), "the same number of indices for each row");
  for (const std::int32_t index : request.indices)
    Require(index >= -1 && index < spec.cols, "no index passes the axis");
  Require(spec.summary.top_k <= limits.max_top_k, "top_k is within its limit");
  (void)softmax::testing::Payload(slices, request);
  if (spec.output_bytes() > (1 << 20)) return;
  std::string answer;
  AnswerParts parts;
  EncodeAnswerHeader(request, {1, 1u << 20, ~0ull, 0}, true, &answer, &parts);
  Require(answer.size() <= 226, "an answer's header keeps within its reserve");
  std::uint64_t payload = 0;
  for (std::size_t i = parts.count; i > 0; --i) {
    const AnswerParts::Part& part = parts.part[i - 1];
    answer.insert(part.header_end, part.bytes, '\0');
    payload += part.bytes;
  }
  Require(payload == spec.output_bytes(), "the parts are the whole payload");
  Require(WellFormed(answer), "an answer is well-formed");
}

void Check(Slices slices, std::uint64_t size, const WireLimits& limits, const DecodedRequest& cut,
           const DecodedRequest& whole) {
  Require(Difference(cut, whole).empty(), "the slices make no difference");
  if (cut.status.ok()) {
    CheckAccepted(slices, size, limits, cut);
  } else {
    CheckRefused(cut);
  }
}

void FuzzOne(const SlicedInput& input, bool streams) {
  const WireLimits limits = softmax::testing::FuzzedLimits((input.flags & 2) != 0);
  if (!streams) {
    DecodedRequest a;
    DecodedRequest b;
    DecodeRequest(input.cut.slices(), limits, &a);
    DecodeRequest(input.whole.slices(), limits, &b);
    Check(input.cut.slices(), input.bytes.size(), limits, a, b);
    return;
  }
  std::vector<DecodedRequest> a;
  std::vector<DecodedRequest> b;
  const absl::Status status = DecodeStreamRequest(input.cut.slices(), limits, &a);
  Require(status == DecodeStreamRequest(input.whole.slices(), limits, &b), "one verdict however cut");
  Require(a.size() == b.size() && (status.ok() || a.empty()), "all requests or none");
  Require(a.size() <= limits.max_requests_per_stream_message, "no more requests than allowed");
  for (std::size_t i = 0; i < a.size(); ++i) Check(input.cut.slices(), input.bytes.size(), limits, a[i], b[i]);
}

}  // namespace
}  // namespace softmax::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
#ifdef SOFTMAX_FUZZ_STREAM
  softmax::server::FuzzOne({data, size}, true);
#else
  softmax::server::FuzzOne({data, size}, (data[0] & 1) != 0);
#endif
  return 0;
}
