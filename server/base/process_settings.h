#pragma once

#include <malloc.h>

#include <climits>
#include <cstdlib>

#include "absl/synchronization/mutex.h"

namespace softmax {

// Call first thing in main, before any thread or gRPC call.
// - The distribution's abseil is built with lock-order checking on, under one global spinlock: 85,000 calls/s instead
// of
//   142,000 on 16 cores, and a suspected cycle would abort the process.
// - gRPC's default poller has one epoll set for the process, and one thread at a time waits in it and reads for all.
// With
//   "poll" each queue's thread polls its own sockets: 343,000 instead of 190,000 calls/s on 16 cores. A wait then costs
//   something for every socket of the queue (docs/operations.md); the environment variable, if set, is left alone.
// - glibc maps and unmaps every large message by default: 6.7 instead of 12.4 GB/s at 1 MiB.
inline void ApplyProcessSettings() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
  setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0);
}

}  // namespace softmax
