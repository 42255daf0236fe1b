#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/server.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/rpc/connections.h"

namespace softmax::server {

// The server's own accept loop. gRPC 1.51's ends for ever at the first accept error that is not EAGAIN (a burst of
// connections at the descriptor limit), has no limit on connections, and keeps no handle to end one. This one counts
// and refuses, waits out EMFILE, and hands each socket to gRPC.
class Acceptor {
 public:
  struct Options {
    std::vector<std::string> addresses;  // host:port (port 0: any free one), [v6]:port, or unix:/path
    std::uint32_t max_connections = 4096;
    // Completion queues of the server. gRPC deals the connections to them at random; this does it in turn
    // (acceptor.cc).
    std::uint32_t queues = 1;
  };

  // Binds and listens; nothing is accepted before Start. Fails with the address and why ("in use").
  static absl::StatusOr<std::unique_ptr<Acceptor>> Create(const Options& options, Connections& connections);
  ~Acceptor();  // Stops.

  // What is listened on, ports resolved, as clients write it.
  const std::vector<std::string>& addresses() const { return bound_; }
  void Start(grpc::Server* server);
  // Closes the listening sockets; accepted connections live on. Joins.
  void StopListening();
  // Ends the watch over the accepted connections as well.
  void Stop();
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Listener {
    int fd = -1;
    std::string unix_path;  // removed at the end
  };

  Acceptor(const Options& options, Connections& connections);
  void Run();
  void HandleEvent(std::uint64_t what);
  void AcceptReady(const Listener& listener);
  void PauseAccepting(int error);
  void ResumeAccepting();
  void HandOver(int fd);
  void Forget(int duplicate);
  void CloseListeners();
  void ChooseSeeds();

  const Options options_;
  Connections& connections_;
  std::vector<std::string> bound_;

  // The accept thread's, after Start.
  grpc::Server* server_ = nullptr;
  std::vector<Listener> listeners_;
  std::unordered_map<int, std::string> names_;  // by the connection's duplicate descriptor
  std::vector<unsigned> seeds_;                 // one a queue
  std::uint32_t next_queue_ = 0;
  bool paused_ = false;
  bool complained_ = false;  // said once that the limit is reached; again after it was not

  int epoll_ = -1;
  int control_ = -1;  // an eventfd: something below changed
  std::atomic<bool> stop_listening_{false};
  std::atomic<bool> listening_{true};
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> refused_{0};
  std::thread thread_;
};

}  // namespace softmax::server
