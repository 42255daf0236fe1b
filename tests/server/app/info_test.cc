#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "server/app/parts.h"
#include "server/rpc/accept/channel_settings.h"

namespace softmax::server {
namespace {

using Numbers = std::map<std::string, std::uint64_t>;

// Every number of a message that is none of its messages'.
Numbers NumbersOf(const google::protobuf::Message& message) {
  Numbers numbers;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* const field = message.GetDescriptor()->field(i);
    const auto* const reflection = message.GetReflection();
    if (field->cpp_type() == field->CPPTYPE_UINT32) {
      numbers[std::string(field->name())] = reflection->GetUInt32(message, field);
    } else if (field->cpp_type() == field->CPPTYPE_UINT64) {
      numbers[std::string(field->name())] = reflection->GetUInt64(message, field);
    }
  }
  return numbers;
}

// No two alike, and none a default.
Config AllDifferent(Numbers* told) {
  Config config;
  std::uint64_t next = 3;
  for (const auto& [name, field] : {std::pair("max_request_bytes", &Config::max_request_bytes),
                                    {"max_response_bytes", &Config::max_response_bytes},
                                    {"max_rank", &Config::max_rank},
                                    {"max_rows", &Config::max_rows},
                                    {"max_columns", &Config::max_columns},
                                    {"max_top_k", &Config::max_top_k},
                                    {"max_requests_per_stream_message", &Config::max_requests_per_stream_message},
                                    {"max_in_flight_per_stream", &Config::max_in_flight_per_stream},
                                    {"max_concurrent_streams_per_connection", &Config::max_concurrent_streams},
                                    {"max_connections", &Config::max_connections},
                                    {"max_queued_bytes", &Config::max_queued_bytes},
                                    {"max_queued_requests", &Config::max_queued_requests},
                                    {"max_unread_bytes_per_connection", &Config::max_unread_bytes_per_connection},
                                    {"max_batch_bytes", &Config::max_batch_bytes},
                                    {"max_batch_requests", &Config::max_batch_requests},
                                    {"arena_bytes", &Config::arena_bytes}}) {
    (*told)[name] = config.*field = next += 2;
  }
  (*told)["max_response_bytes"] += kHeaderAllowanceBytes;
  config.max_queue_delay = std::chrono::microseconds((*told)["max_queue_delay_us"] = 1001);
  config.answer_timeout = std::chrono::milliseconds((*told)["answer_timeout_ms"] = 1003);
  return config;
}

TEST(Info, TellsEveryLimitOfTheConfiguration) {
  Numbers told;
  const Config config = AllDifferent(&told);
  const v1::GetServerInfoResponse info = ServerInfoFor(config, "cpu", {"one", "two"});
  EXPECT_EQ(NumbersOf(info.limits()), told);
  EXPECT_EQ(info.backend(), "cpu");
  EXPECT_EQ(info.devices_size(), 2);
  EXPECT_FALSE(info.has_regions());
  EXPECT_FALSE(info.unsafe_testing());
}

TEST(Info, TellsRegionsWhereThereAreSomeAndTestDoorsThatAreOpen) {
  Config config;
  config.unsafe_testing = true;
  config.regions_socket = "/tmp/regions";
  config.regions_bytes = 1001;
  config.regions_connection_bytes = 1003;
  config.regions_device_bytes = 1005;
  config.regions_device_connection_bytes = 1007;
  const v1::GetServerInfoResponse info = ServerInfoFor(config, "cuda", {});
  EXPECT_TRUE(info.unsafe_testing());
  EXPECT_EQ(info.regions().socket(), "/tmp/regions");
  EXPECT_EQ(NumbersOf(info.regions()), (Numbers{{"max_bytes", 1001},
                                                {"max_bytes_per_connection", 1003},
                                                {"max_device_bytes", 1005},
                                                {"max_device_bytes_per_connection", 1007},
                                                {"max_tensor_bytes", info.regions().max_tensor_bytes()}}));
  EXPECT_GT(info.regions().max_tensor_bytes(), 0u);
  const v1::GetServerInfoResponse without = ServerInfoFor(config, "cpu", {});
  EXPECT_EQ(without.regions().max_device_bytes() + without.regions().max_device_bytes_per_connection(), 0u);
}

TEST(Info, NamesTheDevicesThatAreLostAndNoOther) {
  Devices devices({"A", "B"}, Nanoseconds(0));
  v1::GetServerInfoResponse info;
  DescribeDevices(devices, &info);
  EXPECT_FALSE(info.degraded());
  devices.Lose(1, "for a test", Devices::Loss::kFailed);
  DescribeDevices(devices, &info);
  EXPECT_TRUE(info.degraded());
  EXPECT_THAT(info.lost_devices(), ::testing::ElementsAre("1: B: for a test"));
  devices.Lose(0, "too", Devices::Loss::kFailed);
  info.Clear();
  DescribeDevices(devices, &info);
  EXPECT_THAT(info.lost_devices(), ::testing::ElementsAre("0: A: too", "1: B: for a test"));
}

}  // namespace
}  // namespace softmax::server
