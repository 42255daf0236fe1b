#pragma once

#include <stop_token>
#include <thread>

#include "common/base/clock.h"
#include "server/app/secrets.h"
#include "server/execution/device_group.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/queue/queue_thread.h"

namespace softmax::server {

// Gives memory that has become free back to the system, which glibc does not: after a flood it keeps what small blocks
// lie between, for ever, and a container is killed for what it holds. For one thread.
class MemoryTrim {
 public:
  MemoryTrim();

  // Looked at often, it acts when the process has been quiet for a second, is much larger than at its start, and has
  // not been trimmed for a while: a thread that allocates meanwhile waits.
  void Look(bool quiet, TimePoint now);

 private:
  const double resident_at_start_;
  TimePoint quiet_since_ = kNoDeadline;
  TimePoint next_{};
};

// Looks a few times a second at what changes without an event: overdue answers, the devices' health, changed
// certificates and tokens, memory that lies idle, how late the queue threads are. A thread of its own, from
// construction to destruction; all that it is given outlives it.
class Sweeper {
 public:
  Sweeper(ServiceState& state, DeviceGroup& devices, Secrets& secrets, const QueueThreads& queues, bool unsafe_testing);

 private:
  void Run(const std::stop_token& stop);

  ServiceState& state_;
  DeviceGroup& devices_;
  Secrets& secrets_;
  const QueueThreads& queues_;
  const bool unsafe_testing_;  // said once a minute
  MemoryTrim memory_trim_;     // of the thread
  std::jthread thread_;        // last: joins before the state above dies
};

}  // namespace softmax::server
