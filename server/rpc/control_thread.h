#pragma once

#include <grpcpp/completion_queue.h>

#include <list>
#include <memory>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/metrics/metrics.h"
#include "server/rpc/health.h"
#include "server/rpc/service_state.h"
#include "server/rpc/waker.h"

namespace softmax::server {

class WatchCall;

// A completion queue and thread of their own for what must answer while everything else is busy: health (Check and
// Watch) and GetServerInfo.
class ControlThread {
 public:
  using HealthService = grpc::health::v1::Health::AsyncService;

  ControlThread(ServiceState& state, Health& health, std::unique_ptr<grpc::ServerCompletionQueue> queue,
                Recorder& recorder);
  ~ControlThread();

  HealthService& health_service() { return health_service_; }
  // After the server is built.
  void Start();
  // Ends every Watch, which would otherwise hold up the server's shutdown. Any thread.
  void EndWatches();
  // After the grpc::Server's Shutdown returned. Joins.
  void ShutdownAndJoin();

  // For the calls, on this thread.
  ServiceState& state() { return state_; }
  Health& health() { return health_; }
  Recorder& recorder() { return recorder_; }
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  std::list<WatchCall*>& watches() { return watches_; }
  bool ending_watches() const { return ending_watches_.load(); }

 private:
  void Run();

  ServiceState& state_;
  Health& health_;
  Recorder& recorder_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Waker waker_;
  HealthService health_service_;
  std::list<WatchCall*> watches_;
  std::atomic<bool> ending_watches_{false};
  std::thread thread_;
};

}  // namespace softmax::server
