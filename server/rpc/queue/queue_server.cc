#include "server/rpc/queue/queue_server.h"

#include "server/rpc/security/tls_files.h"

namespace softmax::server {

QueueServer::QueueServer(const Options& options) : builder_(std::make_unique<grpc::ServerBuilder>()) {
  ApplyServerSettings(options.channel, builder_.get());
  builder_->SetResourceQuota(options.quota);
  queue_ = builder_->AddCompletionQueue();
  if (options.tls == nullptr) return;
  tls_acceptor_ = builder_->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, ReloadingCredentials(*options.tls));
}

absl::Status QueueServer::Start() {
  grpc_ = builder_->BuildAndStart();
  builder_.reset();
  return grpc_ == nullptr ? absl::InternalError("gRPC could not start its server") : absl::OkStatus();
}

}  // namespace softmax::server
