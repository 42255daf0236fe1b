#pragma once

#include <chrono>
#include <thread>

namespace softmax::testing {

// Whether `condition` comes to hold within `timeout`: looked at now, then every `step`, and once more at the end. Tests
// wait in no other way for what tells them nothing when it happens. The time limit is for what must come, and so large
// that only a fault exceeds it; with one of milliseconds, and EXPECT_FALSE, it says that something stays away so long.
template <typename Condition>
bool Eventually(const Condition& condition, std::chrono::nanoseconds timeout = std::chrono::seconds(30),
                std::chrono::nanoseconds step = std::chrono::milliseconds(5)) {
  for (const auto end = std::chrono::steady_clock::now() + timeout;;) {
    const bool last = std::chrono::steady_clock::now() >= end;
    if (condition()) return true;
    if (last) return false;
    std::this_thread::sleep_for(step);
  }
}

// Time that is the test's own doing, such as a client that sends a byte every so often, a paced load, a server that
// stands still, how long something is measured. No condition could take its place; where one can, wait for that.
template <typename Rep, typename Period>
void LetPass(std::chrono::duration<Rep, Period> time) {
  std::this_thread::sleep_for(time);
}

}  // namespace softmax::testing
