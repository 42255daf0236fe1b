#include "server/rpc/arrivals.h"

#include <unistd.h>

#include <algorithm>

namespace softmax::server {

Arrivals::~Arrivals() {
  for (const Arrival& arrival : order_) close(arrival.fd);
}

void Arrivals::Add(int fd, std::size_t destination, TimePoint now) {
  if (counts_.size() <= destination) counts_.resize(destination + 1);
  ++counts_[destination];
  by_fd_[fd] = order_.insert(order_.end(), Arrival{fd, destination, now});
}

std::optional<std::size_t> Arrivals::DestinationOf(int fd) const {
  const auto it = by_fd_.find(fd);
  if (it == by_fd_.end()) return std::nullopt;
  return it->second->destination;
}

void Arrivals::Take(int fd) {
  const auto it = by_fd_.find(fd);
  if (it == by_fd_.end()) return;
  --counts_[it->second->destination];
  order_.erase(it->second);
  by_fd_.erase(it);
}

void Arrivals::Close(int fd) {
  Take(fd);
  close(fd);
}

bool Arrivals::CloseOldest(std::size_t destination) {
  const auto it =
      std::find_if(order_.begin(), order_.end(), [&](const Arrival& a) { return a.destination == destination; });
  if (it == order_.end()) return false;
  Close(it->fd);
  return true;
}

std::size_t Arrivals::CloseOlderThan(TimePoint then) {
  std::size_t closed = 0;
  for (; !order_.empty() && order_.front().since < then; ++closed) Close(order_.front().fd);
  return closed;
}

void Arrivals::CloseAll(std::size_t destination) {
  while (CloseOldest(destination)) {
  }
}

}  // namespace softmax::server
