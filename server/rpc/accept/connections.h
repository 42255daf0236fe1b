#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "server/base/counters.h"
#include "server/batching/admission_queue.h"
#include "server/batching/arena.h"
#include "server/rpc/accept/cork.h"
#include "server/rpc/accept/room.h"
#include "server/rpc/guard/read_guard.h"

namespace softmax::server {

class Connection;

// Bytes of answers that gRPC holds until the socket took them. There is no way to take them back, so all are accounted
// to their connection.
struct HeldAnswer {
  // Where they are: in the arena, in a copy that was made for this, or in the text.
  SpanRef span = {};
  std::shared_ptr<const std::byte[]> copy = nullptr;
  std::string text = {};
  std::uint64_t bytes = 0;
  TimePoint sent;
  StripedCounter* held_bytes = nullptr;         // of all connections' answers in the arena; null: it is not there
  UnreadBudget* budget = nullptr;               // of all that are not; null: it is there
  std::shared_ptr<Connection> connection = {};  // lives as long as gRPC holds the answer
  std::list<HeldAnswer>::iterator place = {};   // in the connection's list
};

// One accepted connection. Keeps a duplicate of its descriptor: the only way to end a connection whose peer does not
// read (cancelling a call does not free bytes that wait for a full socket).
class Connection {
 public:
  using Held = std::list<HeldAnswer>;

  Connection(int fd, std::string peer, std::size_t server, ReadGuard::Account account = {})
      : fd_(fd), peer_(std::move(peer)), server_(server), account_(account) {}
  ~Connection();

  // Which server, and so which thread, it was given to.
  std::size_t server() const { return server_; }
  // For that thread, and for no other.
  ConnectionShare& share() { return share_; }
  const ConnectionShare& share() const { return share_; }
  // Likewise: gathers its answers.
  Cork& cork() { return cork_; }
  // For that thread: a message of megabytes came for a call that takes a few bytes. The first is only refused.
  void SentTooMuch();
  // Where it is told what the connection does for its client. Any thread.
  const ReadGuard::Account& account() const { return account_; }
  const std::string& peer() const { return peer_; }
  int fd() const { return fd_; }
  std::uint64_t unread_bytes() const { return share_.unread_bytes.load(std::memory_order_relaxed); }

  // Takes the answer, whose `connection` this is, until Release. The pointer stays valid that long.
  HeldAnswer* Hold(HeldAnswer answer) ABSL_LOCKS_EXCLUDED(mu_);
  // Any thread, perhaps inside the transport: only bookkeeping. May end the connection's life.
  static void Release(HeldAnswer* held);
  // When the oldest answer still held was sent; kNoDeadline when none is.
  TimePoint oldest() const ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the connection in both directions at once. gRPC then sees an error and frees what it holds.
  void Shutdown();
  // Lets gRPC see the peer's end after what has arrived by now.
  void ShutdownReads();
  // Whether the socket is shut in both directions: by gRPC, when it has seen the end, or by Shutdown.
  bool Ended() const;
  // Whether it is none of Connections any more: the client has closed it, so that gRPC drops every answer. Any thread.
  bool left() const { return left_.load(std::memory_order_relaxed); }
  void SetLeft() { left_.store(true, std::memory_order_relaxed); }

  // Looks how much the peer has taken. When it had taken something at the latest, as far as two looks tell: after the
  // look before the one that saw it. Any thread.
  TimePoint LastProgress(TimePoint now) ABSL_LOCKS_EXCLUDED(mu_);
  // When its client's last byte came; `otherwise` where the kernel does not say it (a unix socket).
  TimePoint LastByte(TimePoint now, TimePoint otherwise) const;
  // The sweeper's: since when it has been known that an answer is overdue; kNoDeadline: none is.
  TimePoint& overdue_since() { return overdue_since_; }

 private:
  const int fd_;
  const std::string peer_;
  const std::size_t server_;
  const ReadGuard::Account account_;
  bool sent_too_much_ = false;
  ConnectionShare share_;
  Cork cork_{fd_};
  std::atomic<bool> left_{false};
  TimePoint overdue_since_ = kNoDeadline;
  mutable Mutex mu_;
  Held held_ ABSL_GUARDED_BY(mu_);
  std::uint64_t taken_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // by the peer, at progress_
  TimePoint looked_ ABSL_GUARDED_BY(mu_);
  TimePoint progress_ ABSL_GUARDED_BY(mu_);
};

// All connections, found by the name gRPC gives a call's peer. Thread-safe.
class Connections {
 public:
  struct Options {
    std::uint64_t max_unread_bytes = 64u << 20;       // of a connection
    std::uint64_t max_unread_bytes_all = 512u << 20;  // of all, outside the arena
    Nanoseconds answer_timeout = std::chrono::seconds(10);
  };

  explicit Connections(const Options& options) : options_(options), unread_budget_(options.max_unread_bytes_all) {}

  // `fd` is the duplicate, owned from here on; `name` is what ServerContext::peer() says for this connection.
  std::shared_ptr<Connection> Add(const std::string& name, int fd, std::string peer, std::size_t server,
                                  ReadGuard::Account account = {});
  // The one that `server` was given; `fd` tells a newer connection of the same name apart, which stays.
  void Remove(const std::string& name, int fd, std::size_t server);
  // The connection of this name that `server` was given. Null when it is gone already; its name, which is a
  // descriptor's number, may be another server's connection by then.
  std::shared_ptr<Connection> Find(const std::string& name, std::size_t server);
  std::size_t size() const;

  // When an answer that was sent then is given up: when its connection has taken nothing for answer_timeout, and after
  // ten times answer_timeout at the latest. While memory is short (Backlog), slow readers have no more time than those
  // that do not read. `connection` may be null. Any thread, a few times each second from a quarter of answer_timeout
  // on: from these looks it knows what the connection took.
  TimePoint OverdueAt(Connection* connection, TimePoint sent, bool memory_is_short, TimePoint now) const;
  // From which age on OverdueAt looks at a connection.
  Nanoseconds look_after() const { return options_.answer_timeout / 4; }
  // Whether some answer is overdue (its call should be cancelled); connections that hold it for half a second longer
  // are shut down. Called a few times a second.
  bool SweepOverdue(bool memory_is_short, TimePoint now);
  void ShutdownAll();
  // Ends every connection, softly where gRPC sees it soon (and before `deadline`). Takes some 100 ms at most.
  void EndAll(TimePoint deadline);

  const Options& options() const { return options_; }
  StripedCounter& held_bytes() { return held_bytes_; }
  UnreadBudget& unread_budget() { return unread_budget_; }
  RoomCounts& room_counts() { return room_counts_; }

 private:
  // Each server has its own buckets, chosen by the hash of the name. A queue's thread looks up its own connections all
  // the time, so the cache lines of their buckets stay with its core.
  struct alignas(128) Bucket {
    mutable Mutex mu;
    std::unordered_map<std::string, std::shared_ptr<Connection>> by_name ABSL_GUARDED_BY(mu);
  };
  Bucket& BucketOf(const std::string& name, std::size_t server) {
    return buckets_[(server * kBucketsEach + std::hash<std::string>()(name) % kBucketsEach) % buckets_.size()];
  }

  enum class Holding : bool { kAnything, kAnswers };
  std::vector<std::shared_ptr<Connection>> All(Holding holding = Holding::kAnything) const;

  const Options options_;
  StripedCounter held_bytes_;
  UnreadBudget unread_budget_;
  RoomCounts room_counts_;
  static constexpr std::size_t kBucketsEach = 4;
  std::array<Bucket, 64> buckets_;
};

}  // namespace softmax::server
