// libFuzzer over the client's reader of what a server sends. The lowest two bits of its input's flags (sliced_input.h):
// 0 an answer, 1 a stream's message, 2 and 3 a GetServerInfo answer.
#include <string>
#include <vector>

#include "client/softmax_client/wire.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/sliced_input.h"

namespace softmax::client {
namespace {

using softmax::testing::Require;
using softmax::testing::RequireReason;

bool Same(const ResponseFields& a, const ResponseFields& b) {
  return a.id == b.id && a.code == b.code && a.message == b.message && a.retry_after_ms == b.retry_after_ms &&
         a.timing.queue_ns == b.timing.queue_ns && a.timing.batch_rows == b.timing.batch_rows &&
         a.has_output == b.has_output && a.dtype == b.dtype && a.rank == b.rank && a.shape == b.shape &&
         a.payload_offset == b.payload_offset && a.payload_bytes == b.payload_bytes;
}

void CheckAnswer(Pieces cut, std::string_view whole, const ResponseFields& answer) {
  Require(answer.rank <= kMaxRank, "the rank is within its limit");
  Require(answer.payload_offset <= whole.size(), "the payload begins inside the message");
  Require(answer.payload_bytes <= whole.size() - answer.payload_offset, "and ends there");
  Require(answer.message.size() <= whole.size(), "a status is no longer than its message");
  std::vector<std::byte> payload(answer.payload_bytes);
  CopyFromSlices(cut, answer.payload_offset, payload.size(), payload.data());
  Require(payload.empty() || std::memcmp(payload.data(), whole.data() + answer.payload_offset, payload.size()) == 0,
          "the payload is copied whole");
  Require(EqualsPieces(cut, answer.payload_offset, payload), "and found equal");
  if (payload.empty()) return;
  payload.back() ^= std::byte{1};
  Require(!EqualsPieces(cut, answer.payload_offset, payload), "and unequal when a bit differs");
}

void CheckUnary(Pieces cut, Pieces whole, std::string_view bytes) {
  ResponseFields a;
  ResponseFields b;
  const absl::Status status = DecodeResponse(cut, &a);
  Require(status == DecodeResponse(whole, &b), "one verdict however cut");
  if (!status.ok()) return RequireReason(std::string(status.message()), 200);
  Require(Same(a, b), "the pieces make no difference");
  CheckAnswer(cut, bytes, a);
}

void CheckStream(Pieces cut, Pieces whole, std::string_view bytes) {
  std::vector<ResponseFields> a;
  std::vector<ResponseFields> b;
  const absl::Status status = DecodeStreamResponse(cut, &a);
  Require(status == DecodeStreamResponse(whole, &b), "one verdict however cut");
  if (!status.ok()) return RequireReason(std::string(status.message()), 200);
  Require(a.size() == b.size() && a.size() <= bytes.size() / 2, "an answer takes two bytes at least");
  for (std::size_t i = 0; i < a.size(); ++i) {
    Require(Same(a[i], b[i]), "the pieces make no difference");
    CheckAnswer(cut, bytes, a[i]);
  }
}

void CheckInfo(Pieces cut, Pieces whole, std::string_view bytes) {
  const auto a = DecodeServerInfo(cut);
  const auto b = DecodeServerInfo(whole);
  Require(a.has_value() == b.has_value(), "one verdict however cut");
  if (!a) return;
  Require(a->version == b->version && a->devices == b->devices && a->dtypes == b->dtypes, "no difference");
  Require(a->devices.size() <= bytes.size() && a->dtypes.size() <= bytes.size(), "lists are within the message");
  for (const DataType type : a->dtypes)
    Require(type >= DataType::kFloat32 && type <= DataType::kFloat64, "known types");
}

}  // namespace
}  // namespace softmax::client

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const softmax::testing::SlicedInput input(data, size);
  const softmax::client::Pieces cut = input.cut.slices(), whole = input.whole.slices();
  switch (input.flags & 3) {
    case 0:
      softmax::client::CheckUnary(cut, whole, input.bytes);
      break;
    case 1:
      softmax::client::CheckStream(cut, whole, input.bytes);
      break;
    default:
      softmax::client::CheckInfo(cut, whole, input.bytes);
  }
  return 0;
}
