#pragma once

#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "common/base/usable_cores.h"

namespace softmax {

inline constexpr char kPollStrategy[] = "GRPC_POLL_STRATEGY";

// Call first thing in main, before any thread or gRPC call.
// - The distribution's abseil is built with lock-order checking on, under one global spinlock: 85,000 calls/s instead
//   of 142,000 on 16 cores, and a suspected cycle would abort the process.
// - glibc maps and unmaps every large message by default: 6.7 instead of 12.4 GB/s at 1 MiB.
// - Its heap has up to eight parts for each core, and every part keeps the most that it ever held: on 2 cores with 512
//   requests of up to 800 KB on their way 580 to 640 MB, and more with a burst now and then. With one part for each
//   core it is 410 to 480 MB and stays so, at the same rate. MALLOC_ARENA_MAX in the environment is left alone.
inline void ApplyProcessSettings() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) {
    mallopt(M_ARENA_MAX, std::max(2, static_cast<int>(CoresOfThisProcess().count)));
  }
}

// Call before the first gRPC call. gRPC's default poller, epoll1, has one epoll set for the process: one thread at a
// time waits in it and reads for all. 190,000 calls/s on 16 cores where eight threads that each poll their own sockets
// ("poll") reach 343,000; and a probe's bytes wait for all that is read before them (p90 of a check at twice the
// capacity 105 to 131 ms, and 10 to 15 ms with "poll"). But a wait with "poll" costs 0.4 us for every open socket of
// the queue, idle ones too; in the server less (server/rpc/accept/socket_poll.h). A GRPC_POLL_STRATEGY in the
// environment is left alone (an empty one is none).
inline void SetPoller(bool own_sockets) {
  const char* set = std::getenv(kPollStrategy);
  if (set != nullptr && *set != 0) return;
  setenv(kPollStrategy, own_sockets ? "poll" : "epoll1", /*overwrite=*/1);
}

// What is wrong with a GRPC_POLL_STRATEGY in the environment; empty: nothing. gRPC ends the process by abort() for one
// that it does not know. It may be a list, of which the first that the machine has is taken.
inline std::string PollStrategyProblem() {
  const char* set = std::getenv(kPollStrategy);
  if (set == nullptr || *set == 0) return "";
  std::istringstream list(set);
  for (std::string name; std::getline(list, name, ',');) {
    if (name != "epoll1" && name != "poll" && name != "all") {
      return std::string("environment variable ") + kPollStrategy + ": '" + name + "' is not one of epoll1, poll, all";
    }
  }
  return "";
}

}  // namespace softmax
