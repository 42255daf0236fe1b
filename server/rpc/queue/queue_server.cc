#include "server/rpc/queue/queue_server.h"

namespace softmax::server {

absl::StatusOr<std::unique_ptr<QueueServer>> QueueServer::Create(const Options& options) {
  std::unique_ptr<QueueServer> server(new QueueServer);
  server->reflects_ = options.reflection;
  grpc::ServerBuilder builder;
  ApplyServerSettings(options.channel, &builder);
  builder.SetResourceQuota(options.quota);
  builder.RegisterService(&server->softmax);
  builder.RegisterService(&server->inference);
  builder.RegisterService(&server->health);
  builder.RegisterAsyncGenericService(&server->unknown);
  if (options.reflection) builder.RegisterService(&server->reflection);
  server->queue_ = builder.AddCompletionQueue();
  if (options.tls != nullptr) {
    server->tls_acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, ReloadingCredentials(*options.tls));
  }
  server->grpc_ = builder.BuildAndStart();
  if (server->grpc_ == nullptr) return absl::InternalError("gRPC could not start its server");
  return server;
}

}  // namespace softmax::server
