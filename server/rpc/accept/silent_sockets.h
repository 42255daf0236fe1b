#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "server/base/clock.h"

namespace softmax::server {

// Sockets that were accepted and have not yet said enough to be handed to gRPC, oldest first. Owns them. Not
// thread-safe: the accept thread's.
class SilentSockets {
 public:
  ~SilentSockets();

  void Add(int fd, std::size_t destination, TimePoint now);
  // The destination of `fd`; nothing when it is not here.
  std::optional<std::size_t> DestinationOf(int fd) const;
  // Gives the socket away.
  void Take(int fd);
  void Close(int fd);
  // Closes the oldest of that destination. False: there is none.
  bool CloseOldest(std::size_t destination);
  // Closes those that came before `then`; how many.
  std::size_t CloseOlderThan(TimePoint then);
  void CloseAll(std::size_t destination);

  std::size_t size() const { return by_fd_.size(); }
  std::size_t size(std::size_t destination) const { return destination < counts_.size() ? counts_[destination] : 0; }
  // When the oldest came; kNoDeadline when there is none.
  TimePoint oldest() const { return order_.empty() ? kNoDeadline : order_.front().since; }

 private:
  struct Arrival {
    int fd;
    std::size_t destination;
    TimePoint since;
  };
  using Order = std::list<Arrival>;

  Order order_;
  std::unordered_map<int, Order::iterator> by_fd_;
  std::vector<std::size_t> counts_;  // by destination
};

}  // namespace softmax::server
