#pragma once

#include <absl/status/status.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>

#include "server/rpc/accept/channel_settings.h"
#include "server/rpc/security/tls_files.h"

namespace softmax::server {

// One grpc::Server with one completion queue: a queue thread's own. A socket given to it is polled by this queue's
// thread and by no other, which one server with many queues does not do for sockets that it did not accept itself.
class QueueServer {
 public:
  using TlsEntrance = grpc::experimental::ExternalConnectionAcceptor;

  struct Options {
    ChannelSettings channel;
    grpc::ResourceQuota quota;      // one for all
    const TlsFiles* tls = nullptr;  // null: no TLS; outlives this
  };

  explicit QueueServer(const Options& options);

  // For services, which outlive this. Null once started.
  grpc::ServerBuilder* builder() { return builder_.get(); }
  // Once, before any socket is given to it. INTERNAL: gRPC says no more.
  absl::Status Start();

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  // Null until started.
  grpc::Server* grpc() { return grpc_.get(); }
  // The way in for sockets that speak TLS; null without, and after the first call.
  std::unique_ptr<TlsEntrance> TakeTlsAcceptor() { return std::move(tls_acceptor_); }

  // Refuses new calls and waits for those under way, until `deadline`, when they are cancelled. The queue must be
  // polled meanwhile, and is shut down by its thread afterwards.
  void Shutdown(std::chrono::system_clock::time_point deadline) { grpc_->Shutdown(deadline); }

 private:
  std::unique_ptr<grpc::ServerBuilder> builder_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<TlsEntrance> tls_acceptor_;
};

}  // namespace softmax::server
