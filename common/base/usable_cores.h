#pragma once

#include <string>

namespace softmax {

// The cores that this process may keep busy, and what says so: "all 16 cores", or "4 of 32 cores (the cgroup's quota)".
struct UsableCores {
  unsigned count = 1;
  std::string why;
};

// The least of the affinity mask and of the CPU quotas of the process's cgroup and those above it, version 1 or 2,
// rounded down. Looked up once.
const UsableCores& CoresOfThisProcess();

// The same for a machine of so many cores, of which the mask has `masked`, and whose /proc and /sys lie under `root`.
UsableCores CoresOf(const std::string& root, unsigned machine, unsigned masked);

// How many completion queues, of one thread each, a server has for so many cores: three quarters of them up to 8
// queues, half of them from there on, 32 at most. The kernel's part of sending and receiving, and callers on the same
// machine, take the rest.
unsigned QueuesFor(unsigned cores);

}  // namespace softmax
