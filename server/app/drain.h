#pragma once

#include <chrono>
#include <memory>

#include "common/base/mutex.h"
#include "server/app/sweeper.h"
#include "server/metrics/metrics.h"
#include "server/regions/region_server.h"
#include "server/rpc/accept/acceptor.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/calls/health_server.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/queue/queue_thread.h"

namespace softmax::server {

// What runs in a server, in the order of its start. Null or empty: not started.
struct RunningParts {
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<RegionServer> regions;
  QueueThreads queues;
  std::unique_ptr<HealthServer> health_server;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<Sweeper> sweeper;
};

// The end of a server: stops its parts in order, gently or at once.
class Drain {
 public:
  struct Options {
    Nanoseconds delay{0};    // between NOT_SERVING and the first refusal
    Nanoseconds timeout{0};  // then for what has been accepted; what is left is cancelled
  };

  // All that is given outlives this; the parts may be started later.
  Drain(ServiceState& state, Connections& health_connections, RunningParts& parts, const Options& options)
      : state_(state), health_connections_(health_connections), parts_(parts), options_(options) {}

  // Server::Drain. Blocks; once.
  void Run();
  // Makes Run skip what is left of its waits. Any thread.
  void Hurry() ABSL_LOCKS_EXCLUDED(hurry_mu_);
  // Shuts down at once what Run has not.
  void Abort();

 private:
  bool WaitUnlessHurried(Nanoseconds duration) ABSL_LOCKS_EXCLUDED(hurry_mu_);  // true: hurried
  void WaitForCalls(TimePoint until);
  void ShutDown(std::chrono::system_clock::time_point deadline);

  ServiceState& state_;
  Connections& health_connections_;
  RunningParts& parts_;
  const Options options_;

  bool shut_down_ = false;

  Mutex hurry_mu_;
  ConditionVariable hurry_changed_;
  bool hurry_ ABSL_GUARDED_BY(hurry_mu_) = false;
};

}  // namespace softmax::server
