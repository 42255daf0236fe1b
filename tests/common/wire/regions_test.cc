#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/wire/decode.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMost = 1 << 20;

DecodedRequest Decode(const std::string& bytes) {
  WireLimits limits;
  limits.max_request_bytes = limits.max_response_bytes = 1024;
  limits.max_tensor_bytes = kMost;
  DecodedRequest request;
  DecodeRequest(SlicedMessage(bytes, {5, 1, 7}).slices(), limits, &request);
  return request;
}

std::string Place(std::uint64_t offset, char token = 'a') {
  return Block(1, std::string(16, token)) + Scalar(2, static_cast<std::int64_t>(offset));
}
// [rows, 64] floats at a place.
std::string InputAt(const std::string& place, std::int64_t rows = 64) {
  return Input(Dtype(1) + Shape({rows, 64}) + Block(3, place));
}
std::string OutputAt(const std::string& place) { return Block(9, place); }
std::string SummaryAt(const std::string& place) { return Block(10, place); }
std::string TopTwo(bool full) { return Block(8, Scalar(1, 2) + Scalar(5, full)); }

void ExpectRefused(const std::string& bytes, const std::string& message) {
  const DecodedRequest request = Decode(bytes);
  EXPECT_EQ(request.status.code(), absl::StatusCode::kInvalidArgument) << request.status;
  EXPECT_THAT(std::string(request.status.message()), HasSubstr(message));
}

TEST(WireRegions, WhatLiesThereIsBoundedByTheTensorsLimitAndNotByTheMessages) {
  const DecodedRequest request = Decode(OutputAt(Place(kMost, 'b')) + InputAt(Place(64), 4096));
  ASSERT_TRUE(request.status.ok()) << request.status;
  EXPECT_TRUE(request.spec.input_in_region);
  EXPECT_TRUE(request.spec.output_in_region);
  EXPECT_FALSE(request.spec.summary_in_region);
  EXPECT_EQ(request.input_place.offset, 64u);
  EXPECT_EQ(request.output_place.region[15], 'b');
  EXPECT_EQ(request.spec.received_bytes(), 0u);
  EXPECT_EQ(request.spec.output_bytes(), 0u);
  EXPECT_EQ(request.spec.region_bytes(), 2 * kMost);
  ExpectRefused(InputAt(Place(64), 4097),
                "input.place: has 1048832 bytes to hold; must be at most 1048576 (max_tensor_bytes)");
  ExpectRefused(InputAt(Place(64), 4096), "output_dtype: 1 makes an answer of 1048576 bytes; must be at most 1024");
  ExpectRefused(OutputAt(Place(0)) + Input(Tensor(1, {512}, 2048)), "input.data: the data and lengths have 2048 bytes");
}

TEST(WireRegions, ATokenHasSixteenBytesAndAnOffsetIsAligned) {
  const std::string output = OutputAt(Place(0, 'b'));
  ExpectRefused(output + InputAt(Block(1, "short")), "input.place.region: has 5 bytes; must be 16");
  ExpectRefused(output + InputAt(Scalar(2, 4)), "input.place.region: has 0 bytes; must be 16");
  ExpectRefused(output + InputAt(Place(2)), "input.place.offset: is 2; must be a multiple of 4");
  ExpectRefused(Scalar(5, 4) + OutputAt(Place(4, 'b')) + InputAt(Place(0)),
                "output_place.offset: is 4; must be a multiple of 8");
  ExpectRefused(TopTwo(false) + SummaryAt(Place(4, 'b')) + InputAt(Place(0)),
                "summary_place.offset: is 4; must be a multiple of 8");
}

TEST(WireRegions, PlacesAreForWhatTheRequestHas) {
  ExpectRefused(OutputAt(Place(0, 'b')) + Input(Dtype(1) + Shape({1}) + Block(3, Place(0)) + Data(4)),
                "input.data: has 4 bytes; must be empty beside input.place");
  ExpectRefused(TopTwo(false) + OutputAt(Place(0, 'b')) + InputAt(Place(0)),
                "output_place: is set; must be absent with a summary without `full`");
  ExpectRefused(SummaryAt(Place(0, 'b')) + OutputAt(Place(0, 'c')) + InputAt(Place(0)),
                "summary_place: is set; must be absent without a summary");
}

TEST(WireRegions, PartsOfARegionLieApartOrInOnePlace) {
  constexpr std::uint64_t kTensor = 64 * 64 * 4;
  for (const std::uint64_t begin : {std::uint64_t{4}, kTensor - 4, kTensor + 4, 2 * kTensor - 4}) {
    ExpectRefused(OutputAt(Place(begin)) + InputAt(Place(kTensor)),
                  "output_place.offset: is " + std::to_string(begin) + ", of 16384 bytes that overlap input.place's");
  }
  EXPECT_TRUE(Decode(OutputAt(Place(kTensor)) + InputAt(Place(kTensor))).status.ok());
  EXPECT_TRUE(Decode(OutputAt(Place(0)) + InputAt(Place(kTensor))).status.ok());
  EXPECT_TRUE(Decode(OutputAt(Place(2 * kTensor)) + InputAt(Place(kTensor))).status.ok());
  EXPECT_TRUE(Decode(OutputAt(Place(4, 'b')) + InputAt(Place(0))).status.ok());
  // The end of the numbers is no way around it.
  EXPECT_FALSE(Decode(OutputAt(Place(~0ull - 3)) + InputAt(Place(~0ull - 7))).status.ok());
  ExpectRefused(Scalar(5, 4) + OutputAt(Place(kTensor)) + InputAt(Place(kTensor)), "or the input's own place");
  ExpectRefused(TopTwo(false) + SummaryAt(Place(kTensor - 8)) + InputAt(Place(0)), "summary_place.offset: is 16376");
  ExpectRefused(TopTwo(true) + SummaryAt(Place(8, 'b')) + OutputAt(Place(16, 'b')) + InputAt(Place(0)),
                "overlap output_place's");
}

}  // namespace
}  // namespace softmax::testing
