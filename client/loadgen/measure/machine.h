#pragma once

#include <optional>
#include <string>
#include <vector>

namespace softmax::client {

// The machine that a report is of; empty: not known.
struct MachineName {
  std::string host;
  std::string processor;  // "Intel(R) Xeon(R) Platinum 8480+"
  unsigned cores = 0;
  std::string system;  // "Linux 6.1.0"
};
MachineName ThisMachine();

// How far this machine's clock is from the true time at most, as its kernel reckons, in milliseconds; nothing: no time
// server sets it.
std::optional<double> ClockErrorMs();

// User and system time of these processes in seconds, from /proc; one that is not there counts as 0.
double CpuSecondsOf(const std::vector<int>& pids);

// What the whole machine has done since it started, in seconds of one core.
struct MachineTimes {
  double busy = 0;
  double total = 0;
};
std::optional<MachineTimes> ReadMachineTimes();

}  // namespace softmax::client
