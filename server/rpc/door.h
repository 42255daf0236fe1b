#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/rpc/greeting.h"

namespace softmax::server {

// The way into a grpc::Server for sockets that we accepted ourselves. Used by the accept thread alone.
class Door {
 public:
  virtual ~Door() = default;
  // What a client's first bytes must be.
  virtual Protocol protocol() const = 0;
  // What ServerContext::peer() will say of this socket.
  virtual std::string PeerOf(int fd) const = 0;
  // Hands the socket over, for good.
  virtual void Enter(int fd) = 0;
};

// Without encryption. `server` has `queues` completion queues; the connections are dealt out to them in turn.
class PlainDoor final : public Door {
 public:
  PlainDoor(grpc::Server* server, std::uint32_t queues);
  Protocol protocol() const override { return Protocol::kHttp2; }
  std::string PeerOf(int fd) const override;
  void Enter(int fd) override;

 private:
  grpc::Server* const server_;
  std::vector<unsigned> seeds_;  // one a queue
  std::size_t next_ = 0;
};

// With the credentials that `acceptor` was made with; gRPC deals these out in turn by itself.
class TlsDoor final : public Door {
 public:
  explicit TlsDoor(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor)
      : acceptor_(std::move(acceptor)) {}
  Protocol protocol() const override { return Protocol::kTls; }
  std::string PeerOf(int fd) const override;
  void Enter(int fd) override;

 private:
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
};

}  // namespace softmax::server
