#include "server/rpc/connections.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace softmax::server {
namespace {

// After the call was cancelled, gRPC frees an answer that waited for the peer's window; what is held still after this
// waits for the socket.
constexpr Nanoseconds kShutdownGrace = std::chrono::milliseconds(500);
constexpr auto kEndPoll = std::chrono::milliseconds(1);
// How long a connection's end is left to gRPC before both directions are shut.
constexpr auto kReadsEnd = std::chrono::milliseconds(100);
// What arrived before that end is still read.
constexpr auto kForcedEnd = std::chrono::milliseconds(20);

}  // namespace

Connection::~Connection() { close(fd_); }

Connection::Held::iterator Connection::Hold(HeldAnswer answer) {
  unread_bytes_.fetch_add(answer.bytes, std::memory_order_relaxed);
  MutexLock lock(mu_);
  return held_.insert(held_.end(), std::move(answer));
}

void Connection::Release(Held::iterator held) {
  unread_bytes_.fetch_sub(held->bytes, std::memory_order_relaxed);
  Held freed;  // the span is given back outside the lock
  MutexLock lock(mu_);
  freed.splice(freed.begin(), held_, held);
}

TimePoint Connection::oldest() const {
  MutexLock lock(mu_);
  return held_.empty() ? kNoDeadline : held_.front().sent;
}

void Connection::Shutdown() { shutdown(fd_, SHUT_RDWR); }

void Connection::ShutdownReads() { shutdown(fd_, SHUT_RD); }

bool Connection::Ended() const {
  pollfd state{fd_, 0, 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

void Connections::Add(const std::string& name, int fd, std::string peer) {
  auto connection = std::make_shared<Connection>(fd, std::move(peer));
  MutexLock lock(mu_);
  by_name_[name] = std::move(connection);
}

void Connections::Remove(const std::string& name, int fd) {
  std::shared_ptr<Connection> gone;  // its descriptor is closed outside the lock
  MutexLock lock(mu_);
  const auto it = by_name_.find(name);
  if (it == by_name_.end() || it->second->fd() != fd) return;
  gone = std::move(it->second);
  by_name_.erase(it);
}

std::shared_ptr<Connection> Connections::Find(const std::string& name) const {
  MutexLock lock(mu_);
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

std::size_t Connections::size() const {
  MutexLock lock(mu_);
  return by_name_.size();
}

std::vector<std::shared_ptr<Connection>> Connections::All() const {
  std::vector<std::shared_ptr<Connection>> all;
  MutexLock lock(mu_);
  all.reserve(by_name_.size());
  for (const auto& [name, connection] : by_name_) all.push_back(connection);
  return all;
}

bool Connections::SweepOverdue(TimePoint now) {
  bool overdue = false;
  for (const std::shared_ptr<Connection>& connection : All()) {
    const TimePoint oldest = connection->oldest();
    if (oldest == kNoDeadline || now - oldest < options_.answer_timeout) continue;
    overdue = true;
    if (now - oldest < options_.answer_timeout + kShutdownGrace) continue;
    spdlog::warn("closing connection {}: it has not read an answer for {} ms ({} bytes unread)", connection->peer(),
                 std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest).count(),
                 connection->unread_bytes());
    connection->Shutdown();
  }
  return overdue;
}

void Connections::EndAll(TimePoint deadline) {
  const std::vector<std::shared_ptr<Connection>> all = All();
  for (const std::shared_ptr<Connection>& connection : all) connection->ShutdownReads();
  const TimePoint until = std::min(deadline, SteadyClock::now() + kReadsEnd);
  for (const std::shared_ptr<Connection>& connection : all) {
    while (!connection->Ended() && SteadyClock::now() < until) std::this_thread::sleep_for(kEndPoll);
  }
  // gRPC misses an end that comes while a busy client's bytes are being read; the peer's own close it does not miss.
  bool forced = false;
  for (const std::shared_ptr<Connection>& connection : all) {
    if (connection->Ended()) continue;
    connection->Shutdown();
    forced = true;
  }
  if (forced) std::this_thread::sleep_for(kForcedEnd);
}

void Connections::ShutdownAll() {
  for (const std::shared_ptr<Connection>& connection : All()) connection->Shutdown();
}

}  // namespace softmax::server
