#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/accept/channel_settings.h"
#include "server/rpc/calls/control_context.h"
#include "server/rpc/calls/softmax_methods.h"
#include "server/rpc/oip/infer_methods.h"
#include "server/rpc/security/tls_files.h"

namespace softmax::server {

// Messages as bytes (calls/control_message.h).
using ReflectionService = grpc::reflection::v1alpha::ServerReflection::WithRawMethod_ServerReflectionInfo<
    grpc::reflection::v1alpha::ServerReflection::Service>;

// One grpc::Server with one completion queue: a queue thread's own. A socket given to it is polled by this queue's
// thread and by no other, which one server with many queues does not do for sockets that it did not accept itself.
class QueueServer {
 public:
  using TlsEntrance = grpc::experimental::ExternalConnectionAcceptor;

  struct Options {
    ChannelSettings channel;
    grpc::ResourceQuota quota;      // one for all
    const TlsFiles* tls = nullptr;  // null: no TLS; outlives this
    bool reflection = true;
  };

  static absl::StatusOr<std::unique_ptr<QueueServer>> Create(const Options& options);

  SoftmaxMethods softmax;
  InferMethods inference;
  HealthService health;
  ReflectionService reflection;
  grpc::AsyncGenericService unknown;

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  grpc::Server* grpc() { return grpc_.get(); }
  bool reflects() const { return reflects_; }
  // The way in for sockets that speak TLS; null without, and after the first call.
  std::unique_ptr<TlsEntrance> TakeTlsAcceptor() { return std::move(tls_acceptor_); }

  // Refuses new calls and waits for those under way, until `deadline`, when they are cancelled. The queue must be
  // polled meanwhile, and is shut down by its thread afterwards.
  void Shutdown(std::chrono::system_clock::time_point deadline) { grpc_->Shutdown(deadline); }

 private:
  QueueServer() = default;

  bool reflects_ = true;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<TlsEntrance> tls_acceptor_;
};

}  // namespace softmax::server
