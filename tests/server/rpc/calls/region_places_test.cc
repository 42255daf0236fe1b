#include "server/rpc/calls/region_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

RegionToken Token(char letter) {
  RegionToken token;
  token.fill(static_cast<std::uint8_t>(letter));
  return token;
}

// Regions a and b of the host, c of device 0 and d of device 1, of 1024 bytes each.
class RegionPlacesTest : public ::testing::Test {
 protected:
  RegionPlacesTest() {
    Add('a', Region::kHost);
    Add('b', Region::kHost);
    Add('c', 0);
    Add('d', 1);
  }
  void Add(char letter, int device) {
    registry_.Add(std::make_shared<const Region>(Token(letter), memory_, sizeof(memory_), device, [] {}));
  }
  // [1, 16] floats from one place to another.
  static DecodedRequest Request(WirePlace input, WirePlace output) {
    DecodedRequest request;
    request.spec.outer = 1;
    request.spec.cols = 16;
    request.spec.input_in_region = request.spec.output_in_region = true;
    request.input_place = input;
    request.output_place = output;
    return request;
  }
  absl::Status Find(const DecodedRequest& request) {
    places_ = {};
    return FindPlaces(request, &registry_, /*thread=*/1, &places_);
  }
  void ExpectRefused(const DecodedRequest& request, absl::StatusCode code, const std::string& message) {
    const absl::Status status = Find(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  std::byte memory_[1024] = {};
  RegionRegistry registry_{2};
  RegionPlaces places_;
};

TEST_F(RegionPlacesTest, PartsAreFoundAndHeld) {
  ASSERT_TRUE(Find(Request({Token('a'), 64}, {Token('b'), 960})).ok());
  EXPECT_EQ(places_.input, memory_ + 64);
  EXPECT_EQ(places_.output, memory_ + 960);
  EXPECT_EQ(places_.device, Region::kHost);
  registry_.Remove(Token('a'));
  EXPECT_EQ(places_.held[0]->token(), Token('a'));
  ExpectRefused(Request({Token('a'), 64}, {Token('b'), 960}), absl::StatusCode::kNotFound, "input.place.region");
}

TEST_F(RegionPlacesTest, NoTokenIsRepeatedToWhoGuessed) {
  const absl::Status status = Find(Request({Token('a'), 0}, {Token('x'), 0}));
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("output_place.region: names no region"));
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("xx")));
}

TEST_F(RegionPlacesTest, NothingReachesBeyondItsRegion) {
  EXPECT_TRUE(Find(Request({Token('a'), 960}, {Token('a'), 0})).ok());
  for (const std::uint64_t offset : {std::uint64_t{964}, std::uint64_t{1024}, UINT64_MAX - 63, UINT64_MAX - 3}) {
    ExpectRefused(Request({Token('a'), offset}, {Token('b'), 0}), absl::StatusCode::kInvalidArgument,
                  "must end within the region's 1024 bytes");
  }
  DecodedRequest large = Request({Token('a'), 0}, {Token('b'), 0});
  large.spec.cols = 256;
  EXPECT_TRUE(Find(large).ok());
  large.spec.cols = 257;
  ExpectRefused(large, absl::StatusCode::kInvalidArgument, "input.place.offset: is 0, of 1028 bytes");
  DecodedRequest summary = Request({Token('a'), 0}, {});
  summary.spec.output_in_region = false;
  summary.spec.summary_in_region = true;
  summary.spec.summary.partial = true;
  summary.spec.summary.top_k = 1;  // 4 bytes, a gap, 4 bytes
  summary.summary_place = {Token('b'), 1012};
  EXPECT_TRUE(Find(summary).ok());
  summary.summary_place.offset = 1016;
  ExpectRefused(summary, absl::StatusCode::kInvalidArgument, "summary_place.offset: is 1016, of 12 bytes");
}

TEST_F(RegionPlacesTest, MemoryOfTheHostMixesWithThatOfOneDevice) {
  ASSERT_TRUE(Find(Request({Token('a'), 0}, {Token('c'), 0})).ok());
  EXPECT_EQ(places_.device, 0);
  ASSERT_TRUE(Find(Request({Token('d'), 0}, {Token('a'), 0})).ok());
  EXPECT_EQ(places_.device, 1);
  ExpectRefused(Request({Token('c'), 0}, {Token('d'), 0}), absl::StatusCode::kInvalidArgument,
                "output_place.region: is of device 1; must be of device 0");
}

TEST_F(RegionPlacesTest, AMessageOfItsOwnNeedsNoRegions) { EXPECT_TRUE(FindPlaces({}, nullptr, 0, &places_).ok()); }

}  // namespace
}  // namespace softmax::server
