#pragma once

#include <optional>
#include <vector>

namespace softmax::client {

// User and system time of these processes in seconds, from /proc; one that is not there counts as 0.
double CpuSecondsOf(const std::vector<int>& pids);

// What the whole machine has done since it started, in seconds of one core.
struct MachineTimes {
  double busy = 0;
  double total = 0;
};
std::optional<MachineTimes> ReadMachineTimes();

}  // namespace softmax::client
