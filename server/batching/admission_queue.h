#pragma once

#include <cstdint>
#include <deque>

#include "server/base/clock.h"
#include "server/batching/batcher.h"
#include "server/batching/pending_request.h"
#include "server/batching/rate_estimator.h"

namespace softmax::server {

// One connection's requests on their way through its thread's AdmissionQueue. The thread's own; lives as long as any of
// them.
struct ConnectionShare {
  // Small and large requests stand in lines of their own: a large one may wait long for memory, and a proxy's
  // connection carries the requests of many.
  struct Line {
    std::uint32_t batched = 0;        // requests with the batcher, in units of AdmissionQueue::Kind
    std::uint64_t batched_bytes = 0;  // theirs
    std::deque<PendingRequest*> waiting;
    std::uint64_t waiting_cost = 0;
    bool listed = false;  // in the queue's circle
  };
  Line small, large;
  std::uint32_t batched() const { return small.batched + large.batched; }
  // Of all its requests that were taken and are not answered, with the batcher or waiting.
  std::uint64_t in_flight_bytes = 0;
};

// Shares a batcher among connections. Without it, a connection with a thousand requests in flight would fill every
// batch, and a connection with one request would wait for a thousand answers to leave. Here a connection has a few
// requests with the batcher at a time, and the others wait in queues of its own, the small and the large ones. As
// requests are answered, those that wait are let in round robin, one of each queue. A connection that is alone has
// wider limits.
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
    std::uint64_t bytes = 8ull << 20;   // likewise; one request alone may be larger
    std::uint64_t in_flight_bytes = 0;  // of a connection, taken and not answered: refused above it; 0: no limit
    std::uint32_t alone_factor = 4;     // how much wider the limits are for a connection that is alone
    Nanoseconds shared_for = std::chrono::milliseconds(50);  // others count as there for so long after they were
  };
  // What a request costs its thread, next to others: a stream's has no call of its own.
  enum class Kind : std::uint32_t { kStreamed = 1, kUnary = 8 };

  // The clock is read once for each stretch that the rate is measured over.
  AdmissionQueue(const Options& options, Batcher& batcher, Clock clock = SteadyClock::now)
      : options_(options), batcher_(batcher), clock_(clock) {}

  // Takes the request, whose share may be null (its connection has gone): it is completed exactly once, perhaps before
  // this returns. When Complete runs, the share is without it again.
  void Submit(PendingRequest* request, ConnectionShare* share, Kind kind, TimePoint now);

  // Whether so many bytes more would be taken for this share.
  bool HasBytes(const ConnectionShare* share, std::uint64_t more) const {
    return share == nullptr || options_.in_flight_bytes == 0 ||
           share->in_flight_bytes + more <= options_.in_flight_bytes;
  }

  // Lets waiting requests in, as far as there is room. Called after batches have finished, never from Complete. True:
  // something was let in.
  bool AdmitWaiting(TimePoint now);
  // Whether AdmitWaiting may find something.
  bool may_admit() const { return freed_ && !circle_.empty(); }

  // Requests that wait to be let in.
  std::uint64_t waiting() const { return waiting_; }

  // A request costs as much as this many bytes more than it has: accepting and answering the call.
  static constexpr std::uint64_t kCallBytes = 16u << 10;
  static std::uint64_t CostOf(const PendingRequest& request) {
    return kCallBytes + request.spec().input_bytes() + request.spec().output_bytes();
  }

 private:
  friend class PendingRequest;

  static std::uint64_t BytesOf(const PendingRequest& request) {
    return request.spec().input_bytes() + request.spec().lengths_bytes() + request.spec().indices_bytes();
  }
  // Small requests are those of which `requests` are no more than `bytes`.
  ConnectionShare::Line& LineOf(ConnectionShare& share, const PendingRequest& request) const {
    return request.spec().input_bytes() * options_.requests <= options_.bytes ? share.small : share.large;
  }
  bool HasRoom(const ConnectionShare::Line& line, const PendingRequest& request, TimePoint now) const;
  // Cost of what is before a request of this line that comes now and waits.
  std::uint64_t CostBefore(const ConnectionShare::Line& line) const;
  // How long so much may take, if that is longer than the request's deadline leaves; zero otherwise.
  Nanoseconds TooLate(const PendingRequest& request, std::uint64_t cost_before, TimePoint now) const;

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
  const Clock clock_;
  std::deque<ConnectionShare::Line*> circle_;  // those with waiting requests, the next first
  std::uint64_t waiting_ = 0;
  std::uint64_t waiting_cost_ = 0;
  std::uint32_t busy_ = 0;    // shares with requests in the batcher
  TimePoint shared_until_{};  // until then no connection counts as alone
  bool freed_ = false;        // room came free since AdmitWaiting looked
  RateEstimator rate_;        // of what lies in the batcher's batches; waiting for memory is no work
};

}  // namespace softmax::server
