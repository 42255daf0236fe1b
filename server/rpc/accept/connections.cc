#include "server/rpc/accept/connections.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "server/base/log.h"

namespace softmax::server {
namespace {

// After the call was cancelled, gRPC frees an answer that waited for the peer's window; what is held still after this
// waits for the socket.
constexpr Nanoseconds kShutdownGrace = std::chrono::milliseconds(500);
// How many times answer_timeout an answer may take whose client reads slowly.
constexpr int kSlowReaders = 10;
// Less than this that the peer has acknowledged may be pings and their like, and is no progress.
constexpr std::uint64_t kLeastProgress = 4096;
constexpr auto kEndPoll = std::chrono::milliseconds(1);
// How long a connection's end is left to gRPC before both directions are shut.
constexpr auto kReadsEnd = std::chrono::milliseconds(100);
// What arrived before that end is still read.
constexpr auto kForcedEnd = std::chrono::milliseconds(20);

// Bytes that the peer has taken so far. A unix socket does not count them: what waits in it is told, as a number that
// differs by kLeastProgress when the peer has taken something.
std::uint64_t TakenBytes(int fd) {
  // The C library's structure ends before what Linux 4.1 added.
  struct {
    tcp_info info;
    std::uint64_t pacing_rate, max_pacing_rate, bytes_acked;
  } told{};
  socklen_t size = sizeof(told);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &size) == 0) return told.bytes_acked;
  int waiting = 0;
  return ioctl(fd, SIOCOUTQ, &waiting) == 0 ? static_cast<std::uint64_t>(waiting) * kLeastProgress : 0;
}

}  // namespace

Connection::~Connection() { close(fd_); }

TimePoint Connection::LastProgress(TimePoint now) {
  MutexLock lock(mu_);
  const std::uint64_t taken = TakenBytes(fd_);
  if (taken - taken_bytes_ >= kLeastProgress) {
    taken_bytes_ = taken;
    progress_ = looked_;
  }
  looked_ = now;
  return progress_;
}

TimePoint Connection::LastByte(TimePoint now, TimePoint otherwise) const {
  tcp_info told{};
  socklen_t size = sizeof(told);
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &told, &size) != 0) return otherwise;
  return now - std::chrono::milliseconds(told.tcpi_last_data_recv);
}

HeldAnswer* Connection::Hold(HeldAnswer answer) {
  share_.unread_bytes.fetch_add(answer.bytes, std::memory_order_relaxed);
  account_.AnswerSent(answer.bytes);
  const auto bytes = static_cast<std::int64_t>(answer.bytes);
  if (answer.held_bytes != nullptr) answer.held_bytes->Add(bytes);
  if (answer.budget != nullptr) answer.budget->Add(bytes);
  MutexLock lock(mu_);
  HeldAnswer& held = held_.emplace_back(std::move(answer));
  held.place = std::prev(held_.end());
  return &held;
}

void Connection::Release(HeldAnswer* held) {
  // The span is given back, and perhaps the connection's life ended, outside the lock.
  const std::shared_ptr<Connection> connection = std::move(held->connection);
  connection->share_.unread_bytes.fetch_sub(held->bytes, std::memory_order_relaxed);
  connection->account_.AnswerTaken(held->bytes);
  const auto bytes = static_cast<std::int64_t>(held->bytes);
  if (held->held_bytes != nullptr) held->held_bytes->Add(-bytes);
  if (held->budget != nullptr) held->budget->Add(-bytes);
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
  if (sent_too_much_) ReadGuard::End(account_, fd_, FrameMeter::Verdict::kMessages, /*goes_in_the_clear=*/false);
  sent_too_much_ = true;
}

std::shared_ptr<Connection> Connections::Add(const std::string& name, int fd, std::string peer, std::size_t server,
                                             ReadGuard::Account account) {
  auto connection = std::make_shared<Connection>(fd, std::move(peer), server, account);
  account.EndsBy(fd);
  Bucket& bucket = BucketOf(name, server);
  MutexLock lock(bucket.mu);
  bucket.by_name[name] = connection;
  return connection;
}

void Connections::Remove(const std::string& name, int fd, std::size_t server) {
  std::shared_ptr<Connection> gone;  // its descriptor is closed outside the lock
  Bucket& bucket = BucketOf(name, server);
  MutexLock lock(bucket.mu);
  const auto it = bucket.by_name.find(name);
  if (it == bucket.by_name.end() || it->second->fd() != fd) return;
  gone = std::move(it->second);
  gone->SetLeft();
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

std::vector<std::shared_ptr<Connection>> Connections::All(Holding holding) const {
  std::vector<std::shared_ptr<Connection>> all;
  for (const Bucket& bucket : buckets_) {
    MutexLock lock(bucket.mu);
    for (const auto& [name, connection] : bucket.by_name) {
      if (holding == Holding::kAnything || connection->unread_bytes() > 0) all.push_back(connection);
    }
  }
  return all;
}

TimePoint Connections::OverdueAt(Connection* connection, TimePoint sent, bool memory_is_short, TimePoint now) const {
  const TimePoint unread = Later(sent, options_.answer_timeout);
  if (connection == nullptr || now < Later(sent, look_after())) return unread;
  const TimePoint progress = std::max(sent, connection->LastProgress(now));
  if (memory_is_short) return unread;
  return std::min(Later(progress, options_.answer_timeout), Later(sent, kSlowReaders * options_.answer_timeout));
}

bool Connections::SweepOverdue(bool memory_is_short, TimePoint now) {
  bool overdue = false;
  // Most of thousands hold none, and are not touched.
  for (const std::shared_ptr<Connection>& connection : All(Holding::kAnswers)) {
    const TimePoint oldest = connection->oldest();
    TimePoint& since = connection->overdue_since();
    if (since < oldest) since = kNoDeadline;  // of an answer that has been taken meanwhile
    if (oldest == kNoDeadline || OverdueAt(connection.get(), oldest, memory_is_short, now) > now) {
      since = kNoDeadline;
      continue;
    }
    overdue = true;
    since = std::min(since, now);
    if (now - since < kShutdownGrace) continue;
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
