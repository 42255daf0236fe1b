#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/rpc/accept/greeting.h"

namespace softmax::server {

// Deals sockets out to the server with the fewest that live; among equals in turn.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::size_t servers) : open_(servers) {}
  std::size_t Take();
  void Left(std::size_t server) { --open_[server]; }

 private:
  std::vector<std::uint64_t> open_;
  std::size_t last_ = 0;
};

// A socket that is closed unless somebody takes it.
class OwnedSocket {
 public:
  explicit OwnedSocket(int fd) : fd_(fd) {}
  ~OwnedSocket() {
    if (fd_ >= 0) close(fd_);
  }
  OwnedSocket(const OwnedSocket&) = delete;
  OwnedSocket& operator=(const OwnedSocket&) = delete;
  int Take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The way into gRPC for sockets that we accepted ourselves. Used by the accept thread alone, but for HandOff.
class SocketHandoff {
 public:
  explicit SocketHandoff(std::size_t servers) : least_loaded_(servers) {}
  virtual ~SocketHandoff() = default;
  // What a client's first bytes must be.
  virtual Protocol protocol() const = 0;
  // What ServerContext::peer() will say of this socket.
  virtual std::string PeerOf(int fd) const = 0;
  // To which of the servers behind the handoff the next socket goes. It counts there until Left.
  std::size_t Choose() { return least_loaded_.Take(); }
  // Hands the socket over, for good. Any thread, one at a time for each server.
  virtual void HandOff(int fd, std::size_t server) = 0;
  // A socket that went to this server has ended.
  void Left(std::size_t server) { least_loaded_.Left(server); }

 private:
  LeastLoaded least_loaded_;
};

// Without encryption. The servers outlive the handoff.
class PlainHandoff final : public SocketHandoff {
 public:
  explicit PlainHandoff(std::vector<grpc::Server*> servers)
      : SocketHandoff(servers.size()), servers_(std::move(servers)) {}
  Protocol protocol() const override { return Protocol::kHttp2; }
  std::string PeerOf(int fd) const override;
  // Whether this is a name that PeerOf has given. gRPC takes it as it is, so that a call of a name that Connections
  // does not know comes of one that has ended. (The others' names are gRPC's, and made by us alike: see TlsHandoff.)
  static bool IsPeer(std::string_view name) { return name.starts_with("fd:"); }
  void HandOff(int fd, std::size_t server) override;

 private:
  const std::vector<grpc::Server*> servers_;
};

// With the credentials that the acceptors were made with, one for each server.
class TlsHandoff final : public SocketHandoff {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  explicit TlsHandoff(std::vector<std::unique_ptr<Acceptor>> acceptors)
      : SocketHandoff(acceptors.size()), acceptors_(std::move(acceptors)) {}
  Protocol protocol() const override { return Protocol::kTls; }
  std::string PeerOf(int fd) const override;
  void HandOff(int fd, std::size_t server) override;

 private:
  const std::vector<std::unique_ptr<Acceptor>> acceptors_;
};

}  // namespace softmax::server
