#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/rpc/greeting.h"

namespace softmax::server {

// Deals sockets out to the server with the fewest that live; among equals in turn.
class Dealer {
 public:
  explicit Dealer(std::size_t servers) : open_(servers) {}
  std::size_t Take();
  void Left(std::size_t server) { --open_[server]; }

 private:
  std::vector<std::uint64_t> open_;
  std::size_t last_ = 0;
};

// The way into gRPC for sockets that we accepted ourselves. Used by the accept thread alone.
class Door {
 public:
  explicit Door(std::size_t servers) : dealer_(servers) {}
  virtual ~Door() = default;
  // What a client's first bytes must be.
  virtual Protocol protocol() const = 0;
  // What ServerContext::peer() will say of this socket.
  virtual std::string PeerOf(int fd) const = 0;
  // To which of the servers behind the door the next socket goes. It counts there until Left.
  std::size_t Choose() { return dealer_.Take(); }
  // Hands the socket over, for good.
  virtual void Enter(int fd, std::size_t server) = 0;
  // A socket that went to this server has ended.
  void Left(std::size_t server) { dealer_.Left(server); }

 private:
  Dealer dealer_;
};

// Without encryption. The servers outlive the door.
class PlainDoor final : public Door {
 public:
  explicit PlainDoor(std::vector<grpc::Server*> servers) : Door(servers.size()), servers_(std::move(servers)) {}
  Protocol protocol() const override { return Protocol::kHttp2; }
  std::string PeerOf(int fd) const override;
  void Enter(int fd, std::size_t server) override;

 private:
  const std::vector<grpc::Server*> servers_;
};

// With the credentials that the entrances were made with, one for each server.
class TlsDoor final : public Door {
 public:
  using Entrance = grpc::experimental::ExternalConnectionAcceptor;

  explicit TlsDoor(std::vector<std::unique_ptr<Entrance>> entrances)
      : Door(entrances.size()), entrances_(std::move(entrances)) {}
  Protocol protocol() const override { return Protocol::kTls; }
  std::string PeerOf(int fd) const override;
  void Enter(int fd, std::size_t server) override;

 private:
  const std::vector<std::unique_ptr<Entrance>> entrances_;
};

}  // namespace softmax::server
