#include "server/app/component_options.h"

#include <gtest/gtest.h>

#include <chrono>

namespace softmax::server {
namespace {

using std::chrono::milliseconds;

// What GetServerInfo does not tell; tests/end_to_end/server_info_test.cc looks at the rest.
TEST(ComponentOptions, DevicesHaveRoomForTheLargestRequestAndItsAnswerAndTheirTime) {
  Config config;
  config.max_request_bytes = 1001;
  config.max_response_bytes = 2003;
  config.arena_bytes = 40 << 20;
  config.device_timeout = milliseconds(3456);
  config.degraded_limit = milliseconds(7890);
  const DeviceGroup::Options options = DeviceGroupOptionsFor(config);
  EXPECT_EQ(options.largest_request_bytes, 3004u);
  EXPECT_EQ(options.arena_bytes, 40u << 20);
  EXPECT_EQ(options.batch_timeout, milliseconds(3456));
  EXPECT_EQ(options.degraded_limit, milliseconds(7890));
}

TEST(ComponentOptions, RequestsWaitForMemoryAsLongAsADeviceAndItsAnswersMayHoldIt) {
  Config config;
  config.device_timeout = milliseconds(3456);
  config.answer_timeout = milliseconds(1000);
  EXPECT_EQ(BacklogOptionsFor(config).max_wait, milliseconds(5456));
  config.device_timeout = milliseconds(0);  // never: as by default
  EXPECT_EQ(BacklogOptionsFor(config).max_wait, Config().device_timeout + milliseconds(2000));
}

TEST(ComponentOptions, BatchesOfEitherSizeFitIntoTheExecutor) {
  Config config;
  config.max_request_bytes = 1001;
  config.max_batch_bytes = 2003;
  EXPECT_EQ(ExecutorOptionsFor(config).max_input_bytes, 2003u);
  config.max_batch_bytes = 7;
  EXPECT_EQ(ExecutorOptionsFor(config).max_input_bytes, 1001u);
  config.max_batch_requests = 11;
  EXPECT_EQ(ExecutorOptionsFor(config).max_batch_requests, 11u);
}

}  // namespace
}  // namespace softmax::server
