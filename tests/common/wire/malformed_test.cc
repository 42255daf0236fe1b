#include "tests/support/malformed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/wire/decode.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

constexpr std::size_t kSmall = 400;  // bytes; up to here every cut is tried

const std::vector<MalformedCase>& Cases() {
  static const auto* const cases = new std::vector<MalformedCase>(MalformedCases());
  return *cases;
}

DecodedRequest Decode(const SlicedMessage& message) {
  DecodedRequest request;
  DecodeRequest(message.slices(), WireLimits{}, &request);
  return request;
}

void ExpectVerdict(const MalformedCase& c, const absl::Status& status) {
  EXPECT_EQ(static_cast<int>(status.code()), c.code) << c.name << ": " << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(c.must_say)) << c.name;
  // A message is for a person: no case needs more than this, whatever the request held.
  EXPECT_LE(status.message().size(), 300u) << c.name;
}

TEST(WireMalformed, HasOverAThousandBadCases) {
  std::size_t bad = 0;
  for (const MalformedCase& c : Cases()) {
    bad += !c.valid;
    EXPECT_EQ(c.valid, c.code == 0) << c.name;
    EXPECT_EQ(c.valid, c.must_say.empty()) << c.name;
  }
  EXPECT_GE(bad, 1000u);
  EXPECT_GE(Cases().size() - bad, 200u);
  RecordProperty("bad_cases", static_cast<int>(bad));
  RecordProperty("valid_cases", static_cast<int>(Cases().size() - bad));
}

TEST(WireMalformed, EveryCaseGetsItsStatusAndItsReason) {
  for (const MalformedCase& c : Cases()) ExpectVerdict(c, Decode(SlicedMessage(c.bytes)).status);
}

TEST(WireMalformed, NoCutChangesAVerdict) {
  std::mt19937 random(1);
  for (const MalformedCase& c : Cases()) {
    const DecodedRequest whole = Decode(SlicedMessage(c.bytes));
    const auto expect_same = [&](const SlicedMessage& message) {
      ASSERT_EQ(Difference(whole, Decode(message)), "") << c.name;
    };
    if (c.bytes.size() > kSmall) {
      expect_same(SlicedMessage::Cut(c.bytes, 300, random));
      continue;
    }
    for (std::size_t cut = 0; cut <= c.bytes.size(); ++cut) {
      expect_same(SlicedMessage(c.bytes, {cut}));
    }
    expect_same(SlicedMessage(c.bytes, std::vector<std::size_t>(c.bytes.size(), 1)));
    expect_same(SlicedMessage::Cut(c.bytes, 7, random));
  }
}

// The same requests between two good ones on a stream: they spoil nobody else.
TEST(WireMalformed, OnAStreamABadRequestWithAnIdSpoilsNoOther) {
  const std::string good = Block(1, Scalar(1, 11) + Input(Tensor(1, {2, 3}, 24)));
  for (const MalformedCase& c : Cases()) {
    // Here compression is no explanation, and one level of nesting is spent on the stream's
    // message.
    if (c.code == 12 || c.name.find(" groups") != std::string::npos) continue;
    if (c.bytes.size() > (1 << 20)) continue;
    const std::string with_id = Scalar(1, 77) + c.bytes;
    const SlicedMessage message(good + Block(1, with_id) + good, {5, 9, 40});
    std::vector<DecodedRequest> requests;
    const absl::Status status = DecodeStreamRequest(message.slices(), WireLimits{}, &requests);
    ASSERT_TRUE(status.ok()) << c.name << ": " << status;
    ASSERT_EQ(requests.size(), 3u) << c.name;
    EXPECT_TRUE(requests[0].status.ok());
    EXPECT_TRUE(requests[2].status.ok()) << c.name << ": " << requests[2].status;
    EXPECT_EQ(requests[2].id, 11u) << c.name;
    EXPECT_TRUE(requests[1].has_id);
    ExpectVerdict(c, requests[1].status);
  }
}

}  // namespace
}  // namespace softmax::testing
