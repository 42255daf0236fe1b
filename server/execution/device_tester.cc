#include "server/execution/device_tester.h"

#include <absl/strings/str_cat.h>

#include "server/execution/self_test.h"

namespace softmax::server {

DeviceTester::DeviceTester(Executor& executor, std::vector<std::unique_ptr<Lane>> lanes, Nanoseconds limit,
                           Devices& devices)
    : executor_(executor), limit_(limit), devices_(devices), lanes_(std::move(lanes)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void DeviceTester::Run(const std::stop_token& stop) {
  while (const std::optional<Devices::Test> test = devices_.WaitForTest(stop)) TestOne(*test, stop);
  // As the lanes of the queue threads: freeing one may wait for the device that hangs.
  if (!devices_.any_hangs()) return;
  for (std::unique_ptr<Lane>& lane : lanes_) devices_.kept().Keep(std::move(lane));
}

void DeviceTester::TestOne(const Devices::Test& test, const std::stop_token& stop) {
  const absl::Status status = executor_.computes()
                                  ? SelfTest(lanes_[test.device], executor_.self_test_memory(test.device), limit_, stop)
                                  : absl::OkStatus();
  if (status.ok()) {
    devices_.Pass(test);
  } else if (!stop.stop_requested()) {
    devices_.Lose(test.device, absl::StrCat("after another device was lost: ", std::string(status.message())),
                  absl::IsDeadlineExceeded(status) ? Devices::Loss::kHangs : Devices::Loss::kFailed);
  }
}

}  // namespace softmax::server
