#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"

namespace softmax::server {

// Sockets that were accepted and have not yet said enough to be handed to gRPC, oldest first. Owns them. Not
// thread-safe: the accept thread's.
class SilentSockets {
 public:
  ~SilentSockets();

  struct Arrival {
    int fd = -1;
    std::size_t destination = 0;
    std::string network;  // PeerNetwork
    TimePoint since;
  };

  // `listen_at`: when NextToListenTo says it; until then it is not to be listened to.
  void Add(Arrival arrival, TimePoint listen_at);
  // One whose time to be listened to has come, once; -1: there is none by now.
  int NextToListenTo(TimePoint now);
  TimePoint listen_at() const { return waiting_.empty() ? kNoDeadline : waiting_.begin()->first; }
  // Null when it is not here.
  const Arrival* Find(int fd) const;
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
  const std::list<Arrival>& all() const { return order_; }

 private:
  using Order = std::list<Arrival>;
  using Waiting = std::multimap<TimePoint, int>;
  struct Place {
    Order::iterator order;
    Waiting::iterator waiting;  // end(): it has been named
  };

  Order order_;
  std::unordered_map<int, Place> by_fd_;
  Waiting waiting_;
  std::vector<std::size_t> counts_;  // by destination
};

}  // namespace softmax::server
