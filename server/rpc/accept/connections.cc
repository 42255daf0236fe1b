#include "server/rpc/accept/connections.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "server/base/log.h"

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

HeldAnswer* Connection::Hold(HeldAnswer answer) {
  unread_bytes_.fetch_add(answer.bytes, std::memory_order_relaxed);
  account_.AnswerSent(answer.bytes);
  answer.held_bytes->Add(static_cast<std::int64_t>(answer.bytes));
  MutexLock lock(mu_);
  HeldAnswer& held = held_.emplace_back(std::move(answer));
  held.place = std::prev(held_.end());
  return &held;
}

void Connection::Release(HeldAnswer* held) {
  // The span is given back, and perhaps the connection's life ended, outside the lock.
  const std::shared_ptr<Connection> connection = std::move(held->connection);
  connection->unread_bytes_.fetch_sub(held->bytes, std::memory_order_relaxed);
  connection->account_.AnswerTaken(held->bytes);
  held->held_bytes->Add(-static_cast<std::int64_t>(held->bytes));
  Held freed;
  MutexLock lock(connection->mu_);
  freed.splice(freed.begin(), connection->held_, held->place);
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

void Connection::SentTooMuch() {
  if (sent_too_much_) ReadGuard::End(fd_, FrameMeter::Verdict::kMessages, /*goes_in_the_clear=*/false);
  sent_too_much_ = true;
}

void Connections::Add(const std::string& name, int fd, std::string peer, std::size_t server,
                      ReadGuard::Account account) {
  auto connection = std::make_shared<Connection>(fd, std::move(peer), server, account);
  Bucket& bucket = BucketOf(name, server);
  MutexLock lock(bucket.mu);
  bucket.by_name[name] = std::move(connection);
}

void Connections::Remove(const std::string& name, int fd, std::size_t server) {
  std::shared_ptr<Connection> gone;  // its descriptor is closed outside the lock
  Bucket& bucket = BucketOf(name, server);
  MutexLock lock(bucket.mu);
  const auto it = bucket.by_name.find(name);
  if (it == bucket.by_name.end() || it->second->fd() != fd) return;
  gone = std::move(it->second);
  ReadGuard::Forget(gone->account());
  bucket.by_name.erase(it);
}

std::shared_ptr<Connection> Connections::Find(const std::string& name, std::size_t server) {
  Bucket& bucket = BucketOf(name, server);
  MutexLock lock(bucket.mu);
  const auto it = bucket.by_name.find(name);
  return it == bucket.by_name.end() || it->second->server() != server ? nullptr : it->second;
}

std::size_t Connections::size() const {
  std::size_t size = 0;
  for (const Bucket& bucket : buckets_) {
    MutexLock lock(bucket.mu);
    size += bucket.by_name.size();
  }
  return size;
}

std::vector<std::shared_ptr<Connection>> Connections::All() const {
  std::vector<std::shared_ptr<Connection>> all;
  for (const Bucket& bucket : buckets_) {
    MutexLock lock(bucket.mu);
    for (const auto& [name, connection] : bucket.by_name) all.push_back(connection);
  }
  return all;
}

bool Connections::SweepOverdue(TimePoint now) {
  bool overdue = false;
  for (const std::shared_ptr<Connection>& connection : All()) {
    const TimePoint oldest = connection->oldest();
    if (oldest == kNoDeadline || now - oldest < options_.answer_timeout) continue;
    overdue = true;
    if (now - oldest < options_.answer_timeout + kShutdownGrace) continue;
    LogWarning("closing connection ", connection->peer(), ": it has not read an answer for ",
               std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest).count(), " ms (",
               connection->unread_bytes(), " bytes unread)");
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
