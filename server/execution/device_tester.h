#pragma once

#include <absl/status/status.h>

#include <memory>
#include <thread>
#include <vector>

#include "server/execution/devices.h"
#include "server/execution/executor.h"

namespace softmax::server {

// Tests the devices that are left when one was lost, each through a lane of its own, and lets them serve again or loses
// them, too. Its thread sleeps until then. Servers with one device have none.
class DeviceTester {
 public:
  // lanes[d] is on device d and has passed a first test; `limit`: how long a device may take. `executor` and `devices`
  // outlive this.
  DeviceTester(Executor& executor, std::vector<std::unique_ptr<Lane>> lanes, Nanoseconds limit, Devices& devices);

 private:
  void Run(const std::stop_token& stop);
  void TestOne(const Devices::Test& test, const std::stop_token& stop);

  Executor& executor_;
  const Nanoseconds limit_;
  Devices& devices_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::jthread thread_;  // last: joins before the state above dies
};

}  // namespace softmax::server
