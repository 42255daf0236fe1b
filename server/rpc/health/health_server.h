#pragma once

#include <absl/status/status.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server.h>

#include <atomic>
#include <memory>

#include "server/rpc/health/health_context.h"

namespace softmax::server {

// A second gRPC server with grpc.health.v1 and nothing else, for probes that know neither TLS nor tokens. It serves
// until the very end of a drain.
//
// It has a completion queue and no thread: a thread that slept in it would become the reader of every socket of the
// process (health_calls.h). The accept loop looks in while a connection is open; a probe waits up to its interval.
class HealthServer {
 public:
  static constexpr std::uint32_t kMaxConnections = 64;

  // `health` outlives this.
  explicit HealthServer(Health& health) : health_(health) {}
  ~HealthServer();

  absl::Status Start();
  grpc::Server* grpc() { return grpc_.get(); }
  // Answers what is there to answer, without waiting. One thread.
  void Poll();
  // Any thread: the status changed.
  void RequestAttention() { attention_.store(true); }
  // Once nobody polls any more.
  void Shutdown();

 private:
  Health& health_;
  grpc::health::v1::Health::AsyncService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> grpc_;
  CallCount calls_;
  std::unique_ptr<HealthContext> context_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> attention_{false};
};

}  // namespace softmax::server
