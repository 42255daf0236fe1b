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

TEST(WireStream, RequestsComeInOrderWithTheirPayloadsOffsets) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) {
    bytes += Block(50, "unknown");
    bytes += Element(Scalar(1, i) + Input(Dtype(2) + Shape({2}) + Block(15, std::string(4, 'a' + i))));
  }
  const Decoded decoded = Decode(bytes);
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  ASSERT_EQ(decoded.requests.size(), 4u);
  const SlicedMessage message(bytes, {11, 1, 40});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(decoded.requests[i].status.ok());
    EXPECT_EQ(decoded.requests[i].id, static_cast<std::uint64_t>(i));
    EXPECT_EQ(Payload(message.slices(), decoded.requests[i]), std::string(4, 'a' + i));
  }
}

TEST(WireStream, AReusedResultKeepsNothing) {
  std::vector<DecodedRequest> requests(2);
  const SlicedMessage message(Element(Request(8)));
  ASSERT_TRUE(DecodeStreamRequest(message.slices(), {}, &requests).ok());
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].id, 8u);
}

TEST(WireStream, AMessageWithoutRequestsAsksForNothing) {
  EXPECT_TRUE(Decode("").status.ok());
  EXPECT_TRUE(Decode(Block(2, "unknown")).requests.empty());
}

TEST(WireStream, AnAbsentIdIsZero) {
  const Decoded decoded = Decode(Element(Input(Tensor(1, {1}, 4))) + Element(""));
  ASSERT_TRUE(decoded.status.ok());
  ASSERT_EQ(decoded.requests.size(), 2u);
  EXPECT_TRUE(decoded.requests[0].status.ok());
  EXPECT_FALSE(decoded.requests[0].has_id);
  EXPECT_EQ(decoded.requests[0].id, 0u);
  EXPECT_EQ(decoded.requests[1].status.message(), "input: is absent; must be set");
}

TEST(WireStream, DamageBehindTheIdIsTheRequestsOwn) {
  const Decoded decoded =
      Decode(Element(Request(1)) + Element(Scalar(1, 2) + Tag(4, 1) + "shrt") + Element(Request(3)));
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  ASSERT_EQ(decoded.requests.size(), 3u);
  EXPECT_TRUE(decoded.requests[0].status.ok());
  EXPECT_EQ(decoded.requests[1].id, 2u);
  EXPECT_THAT(std::string(decoded.requests[1].status.message()), HasSubstr("scale: malformed"));
  EXPECT_TRUE(decoded.requests[2].status.ok());
  EXPECT_EQ(decoded.requests[2].id, 3u);
}

TEST(WireStream, DamageInsideANestedFieldEndsWithItsRequest) {
  // The tensor claims more than the request holds, and the shape's last value more than the shape
  // does.
  const Decoded decoded = Decode(Element(Scalar(1, 1) + Tag(15, 2) + Varint(60) + Dtype(1)) +
                                 Element(Scalar(1, 2) + Input(Dtype(1) + Tag(2, 2) + "\x01\x80\x01")) +
                                 Element(Scalar(1, 3) + Tag(6, 2) + "\x01\x80\x01") + Element(Request(4)));
  ASSERT_TRUE(decoded.status.ok()) << decoded.status;
  ASSERT_EQ(decoded.requests.size(), 4u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded.requests[i].status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(decoded.requests[i].id, static_cast<std::uint64_t>(i + 1));
  }
  EXPECT_TRUE(decoded.requests[3].status.ok());
  EXPECT_EQ(decoded.requests[3].id, 4u);
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

TEST(WireStream, GroupsMayNestOneLessThanOutside) {
  const auto nested = [](int depth) { return Element(Scalar(1, 1) + Groups(9, depth) + Request(1)); };
  EXPECT_TRUE(Decode(nested(99)).requests.at(0).status.ok());
  EXPECT_FALSE(Decode(nested(100)).requests.at(0).status.ok());
  const auto in_tensor = [](int depth) { return Element(Scalar(1, 1) + Input(Groups(9, depth) + Tensor(1, {1}, 4))); };
  EXPECT_TRUE(Decode(in_tensor(98)).requests.at(0).status.ok());
  EXPECT_FALSE(Decode(in_tensor(99)).requests.at(0).status.ok());
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

TEST(WireStream, TheSizeLimitIsPerRequest) {
  WireLimits limits;
  limits.max_request_bytes = 24;
  const Decoded decoded =
      Decode(Element(Request(1)) + Element(Scalar(1, 2) + Input(Tensor(1, {7}, 28))) + Element(Request(3)), limits);
  ASSERT_TRUE(decoded.status.ok());
  ASSERT_EQ(decoded.requests.size(), 3u);
  EXPECT_TRUE(decoded.requests[0].status.ok());
  EXPECT_EQ(decoded.requests[1].id, 2u);
  EXPECT_THAT(std::string(decoded.requests[1].status.message()), HasSubstr("max_request_bytes"));
  EXPECT_TRUE(decoded.requests[2].status.ok());
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
