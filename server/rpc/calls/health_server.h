#pragma once

#include <absl/status/status.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "server/rpc/calls/control_context.h"

namespace softmax::server {

// A second gRPC server with grpc.health.v1 and nothing else, for probes that know neither TLS nor tokens. It serves
// until the very end of a drain.
//
// Its thread never sleeps in the completion queue, since it would become the reader of every socket of the process
// (ControlContext): it looks in every few milliseconds while a connection is open, and a probe waits so long.
class HealthServer {
 public:
  static constexpr std::uint32_t kMaxConnections = 64;
  static constexpr std::uint32_t kMaxStreams = 16;  // of one connection

  // Both outlive this. `connections`: those to this server.
  HealthServer(Health& health, Connections& connections) : health_(health), connections_(connections) {}
  ~HealthServer();

  absl::Status Start();
  grpc::Server* grpc() { return grpc_.get(); }
  // Any thread: runs this soon on the server's thread, unless it ends before.
  void RunSoon(std::function<void()> job) ABSL_LOCKS_EXCLUDED(mu_);
  // Any thread: the status changed.
  void RequestAttention() { attention_.store(true); }
  // Joins.
  void Shutdown();

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  // Answers some of what is there to answer, without waiting.
  void Poll();

  Health& health_;
  Connections& connections_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  CallCount calls_;
  ControlPace pace_{kMaxStreams};
  std::unique_ptr<ControlContext> context_;  // outlives the server, which knows its services
  std::unique_ptr<grpc::Server> grpc_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> attention_{false};

  Mutex mu_;
  ConditionVariable changed_;
  std::vector<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace softmax::server
