#pragma once

#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "server/batching/arena.h"
#include "server/batching/batch.h"

namespace softmax::server {

class Batcher;

// Requests that cannot be placed at once: those that find no room, and those whose copy would hold a completion-queue
// thread for too long. A small pool of threads takes them in order of arrival, waits for room, copies them into a batch
// of their own and delivers that to the request's batcher.
//
// All memory of a request is reserved in one step or not at all, so nobody holds memory while waiting for more. Only
// the head of the queue waits for it, and small requests behind the head, by turns (see Options): the head's memory may
// be held by answers that nobody reads, and a small request is not to wait for these. A request whose deadline passes
// in the queue is delivered as failed. Thread-safe; outlives every batcher's last Push, and is drained (all delivered)
// by Stop.
class Backlog {
 public:
  struct Options {
    std::uint32_t threads = 1;
    std::uint64_t max_requests = 4096;
    std::uint64_t max_bytes = 1ull << 30;
    // Small requests overtake a head that waits for memory, but for the head's turn: 10 ms after its first 2 ms, and
    // then 10 ms of each second, in which they queue up behind it and what they had comes free. What the head lacks at
    // the end of its turn is not theirs to give.
    Nanoseconds patience = std::chrono::milliseconds(2);
    Nanoseconds turn = std::chrono::milliseconds(10);
    Nanoseconds overtaking = std::chrono::seconds(1);
    // A head that has waited this long for its room is failed with RESOURCE_EXHAUSTED, and so is what is queued and as
    // large: the memory is not coming. Zero: it waits until its deadline, which it may not have.
    Nanoseconds max_wait{0};
  };

  // options.threads == 0: it has none of its own, and whoever made it calls TryTake and CarryOut.
  Backlog(const Options& options, Arena& arena, Clock clock = SteadyClock::now);
  ~Backlog();  // Stops.

  // Takes the request for `home`, or returns false and leaves it: the queue is full. `small`: it may overtake.
  [[nodiscard]] bool Push(PendingRequest* request, Batcher* home, bool small) ABSL_LOCKS_EXCLUDED(mu_);

  // Whether a new request has to queue up although there may be room: it is the head's turn, or the request is too
  // large to overtake. One relaxed load.
  bool MustQueue(bool small, TimePoint now) const;

  // Whether the head has waited so long that memory should go to nobody who may keep it: it has had its second turn.
  // One relaxed load.
  bool memory_is_short() const { return memory_is_short_.load(std::memory_order_relaxed); }

  // Delivers what is queued, then ends the threads. With `fail`, queued requests are failed with UNAVAILABLE instead of
  // being run. Idempotent.
  void Stop(bool fail) ABSL_LOCKS_EXCLUDED(mu_);

  std::uint64_t queued_requests() const { return queued_requests_.load(std::memory_order_relaxed); }
  std::uint64_t queued_bytes() const { return queued_bytes_.load(std::memory_order_relaxed); }

  struct Entry {
    PendingRequest* request;
    Batcher* home;
    std::uint64_t bytes;
    bool small;
  };
  // What a thread took from the queue under the lock and acts on without it.
  struct Taken {
    PendingRequest* request = nullptr;  // the head, or one that overtakes it, with its room
    Batcher* home = nullptr;
    SpanRef room;
    std::vector<Entry> failed;
    absl::Status failure;
  };
  // One look at the queue. False: there is nothing to take before `next`, unless something is pushed or freed.
  bool TryTake(Taken* taken, TimePoint* next) ABSL_LOCKS_EXCLUDED(mu_);
  // Copies the request into a batch of its own and delivers it, or delivers the failures. Once for each TryTake.
  void CarryOut(Taken taken);

 private:
  void Run();
  // None: stopped, and nothing is left.
  std::optional<Taken> Take() ABSL_LOCKS_EXCLUDED(mu_);
  bool TakeRoomOrFailures(TimePoint now, Taken* taken, TimePoint* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // False: there is no room for this one.
  bool TakeRoom(const std::deque<Entry>::iterator& entry, Taken* taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // How long the head has waited beyond patience; below zero: nobody has.
  Nanoseconds Impatience(TimePoint now) const;
  // Those of the queue that `fails` says.
  template <typename Fails>
  void TakeFailed(absl::Status failure, Taken* taken, const Fails& fails) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  TimePoint NextDeadline() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Uncount(const Entry& entry);

  // Constant after construction.
  const Options options_;
  Arena& arena_;
  const Clock clock_;

  // Own synchronization.
  std::atomic<std::uint64_t> queued_requests_{0};
  std::atomic<std::uint64_t> queued_bytes_{0};
  std::atomic<std::int64_t> head_since_ns_{0};  // 0: nobody waits for room
  std::atomic<bool> memory_is_short_{false};

  Mutex mu_;
  ConditionVariable changed_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mu_);
  const PendingRequest* waiting_ ABSL_GUARDED_BY(mu_) = nullptr;  // the head that head_since_ns_ is of
  bool head_taken_ ABSL_GUARDED_BY(mu_) = false;                  // one thread at a time waits for room
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool failing_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::jthread> threads_;  // last: joins before the state above dies
};

}  // namespace softmax::server
