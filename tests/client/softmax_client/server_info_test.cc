#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/softmax_client/wire.h"
#include "softmax/v1/softmax.pb.h"
#include "tests/support/all_operations.h"

namespace softmax::client {
namespace {

softmax::v1::GetServerInfoResponse Full() {
  softmax::v1::GetServerInfoResponse message;
  message.set_version("1.2.3");
  message.set_build(std::string(300, 'b'));
  message.set_backend("cuda");
  message.add_devices("first");
  message.add_devices("second");
  for (const int dtype : {1, 2, 3, 4}) message.add_dtypes(static_cast<softmax::v1::DataType>(dtype));
  for (const auto operation : testing::AllOperations<softmax::v1::Operation>()) message.add_operations(operation);
  softmax::v1::Limits& limits = *message.mutable_limits();
  limits.set_max_request_bytes(1ull << 40);
  limits.set_max_response_bytes(2);
  limits.set_max_rank(3);
  limits.set_max_rows(4);
  limits.set_max_columns(5);
  limits.set_max_requests_per_stream_message(6);
  limits.set_max_in_flight_per_stream(7);
  limits.set_arena_bytes(8);
  message.set_degraded(true);
  message.add_lost_devices("1: second: it hangs");
  message.set_unsafe_testing(true);
  return message;
}

// The bytes in two pieces, cut at `at`.
std::optional<ServerInfo> Decode(const std::string& bytes, std::size_t at) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const std::span<const std::uint8_t> pieces[] = {{data, at}, {data + at, bytes.size() - at}};
  return DecodeServerInfo(pieces);
}

TEST(ServerInfoTest, ReadsWhatTheGeneratedCodeWritesHoweverItIsCut) {
  const std::string bytes = Full().SerializeAsString();
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    const auto info = Decode(bytes, at);
    ASSERT_TRUE(info) << at;
    EXPECT_EQ(info->version, "1.2.3");
    EXPECT_EQ(info->build, std::string(300, 'b'));
    EXPECT_EQ(info->backend, "cuda");
    EXPECT_EQ(info->devices, (std::vector<std::string>{"first", "second"}));
    EXPECT_EQ(info->dtypes.size(), 4u);
    EXPECT_THAT(info->operations, ::testing::ElementsAreArray(testing::AllOperations<Operation>()));
    EXPECT_EQ(info->limits.max_request_bytes, 1ull << 40);
    EXPECT_EQ(info->limits.max_response_bytes, 2u);
    EXPECT_EQ(info->limits.max_rank, 3u);
    EXPECT_EQ(info->limits.max_rows, 4u);
    EXPECT_EQ(info->limits.max_columns, 5u);
    EXPECT_EQ(info->limits.max_requests_per_stream_message, 6u);
    EXPECT_EQ(info->limits.max_in_flight_per_stream, 7u);
    EXPECT_TRUE(info->degraded);
    EXPECT_EQ(info->lost_devices, std::vector<std::string>{"1: second: it hangs"});
    EXPECT_TRUE(info->unsafe_testing);
  }
}

TEST(ServerInfoTest, UnknownFieldsAndValuesAreSkipped) {
  softmax::v1::GetServerInfoResponse message;
  message.add_dtypes(static_cast<softmax::v1::DataType>(99));
  message.add_dtypes(softmax::v1::DATA_TYPE_FLOAT16);
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(100, "later");
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(101, 1);
  const auto info = Decode(message.SerializeAsString(), 0);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->dtypes, std::vector<DataType>{DataType::kFloat16});
}

TEST(ServerInfoTest, WhatEndsInTheMiddleOfAFieldIsRefused) {
  const std::string bytes = Full().SerializeAsString();
  std::size_t refused = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    softmax::v1::GetServerInfoResponse parsed;
    const bool good = parsed.ParseFromString(part);
    EXPECT_EQ(Decode(part, size / 2).has_value(), good) << size;
    refused += good ? 0 : 1;
  }
  EXPECT_GT(refused, bytes.size() / 2);
}

}  // namespace
}  // namespace softmax::client
