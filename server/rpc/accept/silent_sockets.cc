#include "server/rpc/accept/silent_sockets.h"

#include <unistd.h>

#include <algorithm>

namespace softmax::server {

SilentSockets::~SilentSockets() {
  for (const Arrival& arrival : order_) close(arrival.fd);
}

void SilentSockets::Add(int fd, std::size_t destination, TimePoint now) {
  if (counts_.size() <= destination) counts_.resize(destination + 1);
  ++counts_[destination];
  by_fd_[fd] = order_.insert(order_.end(), Arrival{fd, destination, now});
}

std::optional<std::size_t> SilentSockets::DestinationOf(int fd) const {
  const auto it = by_fd_.find(fd);
  if (it == by_fd_.end()) return std::nullopt;
  return it->second->destination;
}

void SilentSockets::Take(int fd) {
  const auto it = by_fd_.find(fd);
  if (it == by_fd_.end()) return;
  --counts_[it->second->destination];
  order_.erase(it->second);
  by_fd_.erase(it);
}

void SilentSockets::Close(int fd) {
  Take(fd);
  close(fd);
}

bool SilentSockets::CloseOldest(std::size_t destination) {
  const auto it =
      std::find_if(order_.begin(), order_.end(), [&](const Arrival& a) { return a.destination == destination; });
  if (it == order_.end()) return false;
  Close(it->fd);
  return true;
}

std::size_t SilentSockets::CloseOlderThan(TimePoint then) {
  std::size_t closed = 0;
  for (; !order_.empty() && order_.front().since < then; ++closed) Close(order_.front().fd);
  return closed;
}

void SilentSockets::CloseAll(std::size_t destination) {
  while (CloseOldest(destination)) {
  }
}

}  // namespace softmax::server
