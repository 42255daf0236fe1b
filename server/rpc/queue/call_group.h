#pragma once

#include <grpcpp/server_builder.h>

#include "common/base/clock.h"

namespace softmax::server {

// Calls of one queue thread: those of a service, or of several that belong together. All that the thread knows of them;
// everything else reaches them as events of its queue.
class CallGroup {
 public:
  // Calls waiting to be matched, per method: with too few, arrivals take the server's slow path.
  static constexpr int kArmedUnaryCalls = 64;
  static constexpr int kArmedStreamCalls = 8;
  static constexpr int kArmedControlCalls = 2;

  virtual ~CallGroup() = default;
  // Adds its services, which stay here, to the server that is being built.
  virtual void Register(grpc::ServerBuilder* builder) = 0;
  // Offers the server, which has started, the first calls to match; each offers the next. Once, before the thread runs.
  virtual void Arm() = 0;
  // On the thread, soon after QueueThread::RequestAttention: looks for a drain, overdue answers and changed health.
  virtual void Attend(TimePoint /*now*/) {}
};

}  // namespace softmax::server
