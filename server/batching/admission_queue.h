#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>

#include "common/base/clock.h"
#include "server/base/counters.h"
#include "server/batching/batcher.h"
#include "server/batching/charge.h"
#include "server/batching/pending_request.h"
#include "server/batching/rate_estimator.h"

namespace softmax::server {

// One connection's requests on their way through its thread's AdmissionQueue, and what their answers hold until the
// client has read them. The thread's own, but for unread_bytes; lives as long as any of them.
struct ConnectionShare {
  // Small and large requests stand in lines of their own: a large one may wait long for memory, and a proxy's
  // connection carries the requests of many.
  struct Line {
    std::uint32_t batched = 0;       // requests with the batcher, in AdmissionQueue's units
    std::uint64_t batched_work = 0;  // theirs
    std::deque<PendingRequest*> waiting;
    std::uint64_t waiting_work = 0;
    bool listed = false;  // in the queue's circle
  };
  Line small, large;
  std::uint32_t batched() const { return small.batched + large.batched; }
  // Charge::held of all its requests that were taken and are not answered, with the batcher or waiting.
  std::uint64_t in_flight_bytes = 0;

  // Of its answers: to come, of the requests with the batcher (Charge::answer); that have come and wait for the write
  // before them, or to be printed or copied; and that the transport has and the client has not read. The last may be
  // changed by any thread.
  std::uint64_t coming_bytes = 0;
  std::uint64_t queued_bytes = 0;
  std::atomic<std::uint64_t> unread_bytes{0};
  std::uint64_t owed_bytes() const {
    return coming_bytes + queued_bytes + unread_bytes.load(std::memory_order_relaxed);
  }
};

// An answer that has come and is not handed to the transport yet: owed to its connection meanwhile. The thread's own.
class OwedAnswer {
 public:
  OwedAnswer(ConnectionShare* share, std::uint64_t bytes) : share_(share), bytes_(bytes) {
    if (share_ != nullptr) share_->queued_bytes += bytes_;
  }
  ~OwedAnswer() {
    if (share_ != nullptr) share_->queued_bytes -= bytes_;
  }
  OwedAnswer(const OwedAnswer&) = delete;
  OwedAnswer& operator=(const OwedAnswer&) = delete;

 private:
  ConnectionShare* const share_;  // null: the connection has gone
  const std::uint64_t bytes_;
};

// What the answers of all connections may hold while nobody reads them. Thread-safe.
class UnreadBudget {
 public:
  explicit UnreadBudget(std::uint64_t limit) : limit_(limit) {}
  void Add(std::int64_t bytes) { used_.Add(bytes); }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t used() const { return static_cast<std::uint64_t>(used_.Sum()); }
  std::uint64_t left() const { return limit_ - std::min(limit_, used()); }

 private:
  const std::uint64_t limit_;
  StripedCounter used_;
};

// Shares a batcher among connections. Without it, a connection with a thousand requests in flight would fill every
// batch, and a connection with one request would wait for a thousand answers to leave. Here a connection has a few
// requests with the batcher at a time, and the others wait in queues of its own, the small and the large ones. As
// requests are answered, those that wait are let in round robin, one of each queue. A connection that is alone has
// wider limits.
//
// A connection whose client does not read is not worked for: while its answers, to come and not read, hold its share,
// its requests wait. The share is options.unread_bytes, and never more than half of what all connections have left of
// the UnreadBudget: however many they are, they leave room for one that asks for little.
//
// Deadlines are checked here, too. A request that cannot be run in time, by the rate measured on this thread, is
// refused: at once, or after it has waited if more was before it than estimated. So in an overload the requests that
// are run are those whose callers still wait for the answer.
//
// A request that is let in carries a ticket (PendingRequest::Ticket), and reports back here when it is finished. All on
// the batcher's thread.
class AdmissionQueue {
 public:
  struct Options {
    std::uint32_t requests = 16;        // of a line with the batcher while other connections have some; 0: no limit
    std::uint64_t work = 16ull << 20;   // likewise, of Charge::work; one request alone may be more
    std::uint64_t in_flight_bytes = 0;  // of a connection, taken and not answered: refused above it; 0: no limit
    std::uint64_t unread_bytes = 64ull << 20;  // of a connection's answers; one alone may be larger
    // Owed to anybody, whatever others hold: a connection with little to read never waits.
    std::uint64_t always_owed = 64u << 10;
    std::uint32_t alone_factor = 4;  // how much wider the limits are for a connection that is alone
    Nanoseconds shared_for = std::chrono::milliseconds(50);  // others count as there for so long after they were
    Prices prices;
  };
  // Requests are counted in these: a stream's has no call of its own.
  static constexpr std::uint32_t kUnitsOfUnary = 8;
  static constexpr std::uint32_t UnitsOf(CallKind kind) { return kind == CallKind::kUnary ? kUnitsOfUnary : 1; }
  // Nothing tells when a client has read: those who wait for that are looked at so often.
  static constexpr Nanoseconds kLookAgain = std::chrono::milliseconds(1);

  // The clock is read once for each stretch that the rate is measured over. `budget`: of all connections, outlives
  // this.
  AdmissionQueue(const Options& options, Batcher& batcher, UnreadBudget& budget, Clock clock = SteadyClock::now)
      : options_(options), batcher_(batcher), budget_(budget), clock_(clock) {}

  // Takes the request, whose share may be null (its connection has gone): it is completed exactly once, perhaps before
  // this returns. When Complete runs, the share is without it again.
  void Submit(PendingRequest* request, ConnectionShare* share, CallKind kind, TimePoint now);

  // Whether `more` bytes would be taken for this share.
  bool HasBytes(const ConnectionShare* share, std::uint64_t more) const {
    return share == nullptr || options_.in_flight_bytes == 0 ||
           share->in_flight_bytes + more <= options_.in_flight_bytes;
  }
  // Whether the connection may be owed an answer of `more` bytes.
  bool MayOwe(const ConnectionShare& share, std::uint64_t more) const;

  // Lets waiting requests in, as far as there is room. Called after batches have finished, never from Complete. True:
  // something was let in.
  bool AdmitWaiting(TimePoint now);
  // Whether AdmitWaiting may find something.
  bool may_admit() const { return freed_ && !circle_.empty(); }
  // When to call LookAgain although nothing has finished; kNoDeadline: not at all.
  TimePoint next_look() const { return look_at_; }
  // Those who wait for their clients to read may be let in again.
  void LookAgain(TimePoint now) {
    if (look_at_ > now) return;
    look_at_ = kNoDeadline;
    freed_ = true;
  }

  // Requests that wait to be let in.
  std::uint64_t waiting() const { return waiting_; }

 private:
  friend class PendingRequest;

  // Small requests are those of which `requests` are no more than `work`.
  ConnectionShare::Line& LineOf(ConnectionShare& share, const PendingRequest& request) const {
    return request.charge().own_work() * options_.requests <= options_.work ? share.small : share.large;
  }
  bool HasRoom(const ConnectionShare& share, const ConnectionShare::Line& line, const PendingRequest& request,
               TimePoint now);
  // Work that is before a request of this line that comes now and waits.
  std::uint64_t WorkBefore(const ConnectionShare::Line& line) const;
  // How long so much may take, if that is longer than the request's deadline leaves; zero otherwise.
  Nanoseconds TooLate(const PendingRequest& request, std::uint64_t work_before, TimePoint now) const;

  // Counts the request as one with the batcher, until Release. Those that are refused are counted, too.
  void Count(const PendingRequest& request);
  // At most once for each counted request.
  void BeginWork(PendingRequest& request, TimePoint now);
  // Once for each counted request, when it is finished and before its caller is answered.
  void Release(const PendingRequest& request, bool ran);
  // Hands the request to the batcher, or refuses it for what TooLate said.
  void Admit(PendingRequest* request, Nanoseconds too_late, TimePoint now);
  void RefuseLate(PendingRequest* request, Nanoseconds wait, TimePoint now);
  void RefuseBytes(PendingRequest* request);
  void Enqueue(PendingRequest* request, ConnectionShare::Line& line);
  // Takes the oldest waiting request of the line, which is at the front of the circle and goes to its end.
  PendingRequest* Dequeue(ConnectionShare::Line& line);

  const Options options_;
  Batcher& batcher_;
  UnreadBudget& budget_;
  const Clock clock_;
  std::deque<ConnectionShare::Line*> circle_;  // those with waiting requests, the next first
  std::uint64_t waiting_ = 0;
  std::uint64_t waiting_work_ = 0;
  std::uint32_t busy_ = 0;    // shares with requests in the batcher
  TimePoint shared_until_{};  // until then no connection counts as alone
  bool freed_ = false;        // room came free since AdmitWaiting looked
  TimePoint look_at_ = kNoDeadline;
  RateEstimator rate_;  // of what lies in the batcher's batches; waiting for memory is no work
};

}  // namespace softmax::server
