#pragma once

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <list>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/health/health.h"
#include "server/rpc/queue/call_count.h"

namespace softmax::server {

class WatchCall;

// What health calls need of the place where they are answered: a completion queue's thread, or the health server.
// Everything on one thread but `health` and `ending`.
struct HealthContext {
  Health& health;
  grpc::health::v1::Health::AsyncService& service;
  grpc::ServerCompletionQueue* queue;
  const std::atomic<bool>& ending;  // watches end
  CallCount& calls;
  std::list<WatchCall*> watches{};
};

}  // namespace softmax::server
