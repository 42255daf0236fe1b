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

// The way into gRPC for sockets that we accepted ourselves. Used by the accept thread alone.
class Door {
 public:
  virtual ~Door() = default;
  // What a client's first bytes must be.
  virtual Protocol protocol() const = 0;
  // What ServerContext::peer() will say of this socket.
  virtual std::string PeerOf(int fd) const = 0;
  // Hands the socket over, for good, and says to which of the servers behind the door.
  virtual std::size_t Enter(int fd) = 0;
  // A socket that went to this server has ended.
  virtual void Left(std::size_t server) = 0;
};

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

// Without encryption. The servers outlive the door.
class PlainDoor final : public Door {
 public:
  explicit PlainDoor(std::vector<grpc::Server*> servers) : servers_(std::move(servers)), dealer_(servers_.size()) {}
  Protocol protocol() const override { return Protocol::kHttp2; }
  std::string PeerOf(int fd) const override;
  std::size_t Enter(int fd) override;
  void Left(std::size_t server) override { dealer_.Left(server); }

 private:
  const std::vector<grpc::Server*> servers_;
  Dealer dealer_;
};

// With the credentials that the entrances were made with, one for each server.
class TlsDoor final : public Door {
 public:
  using Entrance = grpc::experimental::ExternalConnectionAcceptor;

  explicit TlsDoor(std::vector<std::unique_ptr<Entrance>> entrances)
      : entrances_(std::move(entrances)), dealer_(entrances_.size()) {}
  Protocol protocol() const override { return Protocol::kTls; }
  std::string PeerOf(int fd) const override;
  std::size_t Enter(int fd) override;
  void Left(std::size_t server) override { dealer_.Left(server); }

 private:
  const std::vector<std::unique_ptr<Entrance>> entrances_;
  Dealer dealer_;
};

}  // namespace softmax::server
