#pragma once

#include <stop_token>
#include <thread>

#include "server/app/memory_trim.h"
#include "server/app/secrets.h"
#include "server/execution/device_group.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/queue/queue_thread.h"

namespace softmax::server {

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
