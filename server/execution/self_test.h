#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <memory>
#include <stop_token>

#include "common/base/clock.h"
#include "server/batching/lane.h"

namespace softmax::server {

constexpr std::size_t kSelfTestBytes = 4096;
constexpr Nanoseconds kSelfTestLimit = std::chrono::seconds(10);

// A softmax with known answers through the lane, read back and checked. `memory` has kSelfTestBytes that the lane's
// device reaches and that are this test's alone. Any thread that may use the lane.
//
// DEADLINE_EXCEEDED: there was no answer within `limit`, or `stop` was requested. The device may still write then, so
// the memory must not be used again; the lane is kept to the end of the process, and `lane` is empty.
absl::Status SelfTest(std::unique_ptr<Lane>& lane, std::byte* memory, Nanoseconds limit = kSelfTestLimit,
                      const std::stop_token& stop = {});

}  // namespace softmax::server
