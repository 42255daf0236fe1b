#include "server/rpc/accept/silent_sockets.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace softmax::server {

SilentSockets::~SilentSockets() {
  for (const Arrival& arrival : order_) close(arrival.fd);
}

void SilentSockets::Add(Arrival arrival, TimePoint listen_at) {
  if (counts_.size() <= arrival.destination) counts_.resize(arrival.destination + 1);
  ++counts_[arrival.destination];
  const int fd = arrival.fd;
  by_fd_[fd] = {order_.insert(order_.end(), std::move(arrival)), waiting_.emplace(listen_at, fd)};
}

int SilentSockets::NextToListenTo(TimePoint now) {
  if (waiting_.empty() || waiting_.begin()->first > now) return -1;
  const int fd = waiting_.begin()->second;
  waiting_.erase(waiting_.begin());
  by_fd_[fd].waiting = waiting_.end();
  return fd;
}

const SilentSockets::Arrival* SilentSockets::Find(int fd) const {
  const auto it = by_fd_.find(fd);
  return it == by_fd_.end() ? nullptr : &*it->second.order;
}

void SilentSockets::Take(int fd) {
  const auto it = by_fd_.find(fd);
  if (it == by_fd_.end()) return;
  --counts_[it->second.order->destination];
  order_.erase(it->second.order);
  if (it->second.waiting != waiting_.end()) waiting_.erase(it->second.waiting);
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
