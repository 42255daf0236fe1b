#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/wire/decode.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

std::string Request(std::int64_t id) { return Scalar(1, id) + Input(Tensor(1, {2, 3}, 24)); }
std::string Element(const std::string& request) { return Block(1, request); }

struct Decoded {
  absl::Status status;
  std::vector<DecodedRequest> requests;
};

// At every cut; the result of the last one is returned after all were found equal.
Decoded Decode(const std::string& bytes, const WireLimits& limits = {}) {
  Decoded whole;
  const SlicedMessage one(bytes);
  whole.status = DecodeStreamRequest(one.slices(), limits, &whole.requests);
  for (std::size_t cut = 0; cut < bytes.size() && cut < 600; ++cut) {
    const SlicedMessage message(bytes, {cut, 3});
    Decoded decoded;
    decoded.status = DecodeStreamRequest(message.slices(), limits, &decoded.requests);
    EXPECT_EQ(decoded.status, whole.status);
    EXPECT_EQ(decoded.requests.size(), whole.requests.size());
    for (std::size_t i = 0; i < decoded.requests.size() && i < whole.requests.size(); ++i) {
      EXPECT_EQ(Difference(decoded.requests[i], whole.requests[i]), "");
    }
  }
  return whole;
}

TEST(WireStream, OfAMessageThatIsTooLargeEachRequestIsRefusedForItsOwnReason) {
  WireLimits limits;
  limits.max_request_bytes = 24;
  limits.max_message_bytes = 150;
  const std::string large = Element(Scalar(1, 9) + Input(Tensor(1, {50}, 200)));
  const Decoded decoded = Decode(Element(Request(7)) + large + Element(Request(8)), limits);
  ASSERT_EQ(decoded.status, absl::OkStatus());
  ASSERT_EQ(decoded.requests.size(), 3u);
  EXPECT_EQ(decoded.requests[0].status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(decoded.requests[0].status.message()), HasSubstr("must be at most 150"));
  EXPECT_EQ(decoded.requests[1].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.requests[1].status.message()), HasSubstr("max_request_bytes"));
  EXPECT_EQ(decoded.requests[2].id, 8u);
  EXPECT_EQ(decoded.requests[2].status, decoded.requests[0].status);
  // Nobody is there to be told but the stream.
  EXPECT_EQ(Decode(Block(50, std::string(300, 'x')), limits).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Decode(Element(Request(7)), limits).requests[0].status, absl::OkStatus());
}

TEST(WireStream, DamageBeforeAnyIdEndsTheStream) {
  const Decoded decoded = Decode(Element(Request(1)) + Element(Tag(3, 7) + Scalar(1, 2)));
  EXPECT_EQ(decoded.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.status.message()), HasSubstr("requests[1]: axis: malformed"));
  EXPECT_TRUE(decoded.requests.empty());
}

TEST(WireStream, DamageBetweenRequestsEndsTheStream) {
  const std::string good = Element(Request(1));
  for (const std::string& damage : {Tag(0, 0) + Varint(1), Tag(1, 2) + Varint(5) + "four", Tag(5, 6), Tag(9, 4),
                                    Tag(9, 3), Groups(9, 101), Tag(1, 2), good.substr(0, good.size() - 1)}) {
    const Decoded decoded = Decode(good + damage);
    EXPECT_EQ(decoded.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(decoded.status.message()), HasSubstr("requests: malformed"));
    EXPECT_TRUE(decoded.requests.empty());
  }
}

TEST(WireStream, TheCountOfRequestsIsLimited) {
  WireLimits limits;
  limits.max_requests_per_stream_message = 3;
  std::string bytes = Element(Request(1)) + Element(Request(2)) + Element(Request(3));
  EXPECT_EQ(Decode(bytes, limits).requests.size(), 3u);
  const Decoded decoded = Decode(bytes + Element(Request(4)), limits);
  EXPECT_EQ(decoded.status.message(),
            "requests: has more than 3 in one message; must be at most 3 (max_requests_per_stream_message)");
  EXPECT_EQ(decoded.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(decoded.requests.empty());
}

TEST(WireStream, CompressedBytesAreNamed) {
  for (const std::string& magic : {std::string("\x1f\x8b\x08"), std::string("\x78\x9c\xff")}) {
    const Decoded decoded = Decode(magic);
    EXPECT_EQ(decoded.status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(decoded.status.message()), HasSubstr("only identity is accepted"));
  }
  // Field 15 as a varint, by chance a whole message: it asks for nothing, so it is taken for what
  // it looks like.
  EXPECT_EQ(Decode("\x78\x01").status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Decode("\x78\x01" + Element(Request(1))).status.ok());
}

}  // namespace
}  // namespace softmax::testing
