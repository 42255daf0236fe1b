#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "server/base/clock.h"
#include "server/batching/batcher.h"
#include "server/batching/pending_request.h"

namespace softmax::server {

// One connection's requests on their way through its thread's AdmissionQueue. The thread's own; lives as long as any of
// them.
struct ConnectionShare {
  std::uint32_t batched = 0;        // requests with the batcher, in units of AdmissionQueue::Kind
  std::uint64_t batched_bytes = 0;  // theirs
  // Of all its requests that were taken and are not answered, with the batcher or waiting.
  std::uint64_t in_flight_bytes = 0;
  struct Waiting {
    PendingRequest* request;
    std::uint32_t units;
  };
  std::deque<Waiting> waiting;
  std::uint64_t waiting_cost = 0;
  bool listed = false;
};

// The gate before a batcher: connections take turns. One with a thousand requests in flight would otherwise fill every
// batch, and whoever has one behind it waits for a thousand answers to leave. Here a connection has a few requests with
// the batcher at a time, the rest waits in its own queue, and as its requests are answered the connections that wait
// are let in one request each, in a circle. A connection that is alone has a wider limit.
//
// Deadlines are looked at here, too: what cannot be run in time, by the rate measured on this thread, is refused: at
// once, or when its turn comes and more was before it than it seemed. In an overload those that are run are thus the
// ones that somebody still waits for. All on the batcher's thread.
class AdmissionQueue {
 public:
  struct Options {
    std::uint32_t requests = 16;        // of a connection with the batcher while others have some; 0: no limit
    std::uint64_t bytes = 8ull << 20;   // likewise; one request alone may be larger
    std::uint64_t in_flight_bytes = 0;  // of a connection, taken and not answered: refused above it; 0: no limit
    std::uint32_t alone_factor = 4;     // how much wider the limits are for a connection that is alone
    Nanoseconds shared_for = std::chrono::milliseconds(50);  // others count as there for so long after they were
  };
  // What a request costs its thread, next to others: a stream's has no call of its own.
  enum class Kind : std::uint32_t { kStreamed = 1, kUnary = 8 };

  AdmissionQueue(const Options& options, Batcher& batcher) : options_(options), batcher_(batcher) {}

  // Takes the request, whose caller may be null (its connection has gone): it is completed exactly once, perhaps before
  // this returns. Its Complete calls Done, with the same arguments and its answer's `ran`.
  void Submit(PendingRequest* request, ConnectionShare* caller, Kind kind, TimePoint now);
  void Done(const PendingRequest& request, ConnectionShare* caller, Kind kind, bool ran, TimePoint now);

  // Whether so many bytes more would be taken from this caller.
  bool HasBytes(const ConnectionShare* caller, std::uint64_t more) const {
    return caller == nullptr || options_.in_flight_bytes == 0 ||
           caller->in_flight_bytes + more <= options_.in_flight_bytes;
  }

  // Lets in what has its turn. Called after batches have finished, never from Complete. True: something was let in.
  bool AdmitWaiting(TimePoint now);
  // Whether AdmitWaiting may find something.
  bool may_admit() const { return freed_ && !circle_.empty(); }

  // Requests that wait for their turn.
  std::uint64_t waiting() const { return waiting_; }

 private:
  // A request costs as much as this many bytes more than it has: accepting and answering the call.
  static constexpr std::uint64_t kCallBytes = 16u << 10;
  static std::uint64_t CostOf(const PendingRequest& request) {
    return kCallBytes + request.spec().input_bytes() + request.spec().output_bytes();
  }
  static std::uint64_t BytesOf(const PendingRequest& request) {
    return request.spec().input_bytes() + request.spec().lengths_bytes();
  }
  bool HasRoom(const ConnectionShare& caller, const PendingRequest& request, TimePoint now) const;
  void Account(const PendingRequest& request, ConnectionShare* caller, std::uint32_t units, TimePoint now);
  // Cost of what is before a request of this caller that comes now, if it goes to the batcher at once or if it waits.
  std::uint64_t CostBefore(const ConnectionShare* caller, bool waits) const;
  // How long so much may take, if that is longer than the request's deadline leaves; zero otherwise.
  Nanoseconds TooLate(const PendingRequest& request, std::uint64_t cost_before, TimePoint now) const;
  void Refuse(PendingRequest* request, Nanoseconds wait, TimePoint now);
  // Hands the request to the batcher, or refuses it for what TooLate says.
  void Enter(PendingRequest* request, ConnectionShare* caller, std::uint32_t units, Nanoseconds too_late,
             TimePoint now);
  void RefuseBytes(PendingRequest* request, const ConnectionShare& caller);

  const Options options_;
  Batcher& batcher_;
  std::deque<ConnectionShare*> circle_;  // callers with waiting requests, the next first
  std::uint64_t waiting_ = 0;
  std::uint64_t waiting_cost_ = 0;
  std::uint32_t busy_ = 0;  // callers with requests in the batcher
  TimePoint shared_until_{};
  bool freed_ = false;

  void Measure(TimePoint now);

  // The measured rate: time for a unit of cost, while there is as much to do as can be done.
  std::uint64_t cost_in_batcher_ = 0;
  std::uint64_t cost_done_ = 0;
  TimePoint measured_since_{};
  double ns_per_cost_ = 0;
};

}  // namespace softmax::server
