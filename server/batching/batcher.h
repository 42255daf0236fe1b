#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "server/batching/arena.h"
#include "server/batching/backlog.h"
#include "server/batching/batch.h"
#include "server/batching/finish_forecast.h"
#include "server/batching/lane.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// One completion-queue thread's batching: its open batches (one per pair of types), its lane, its batches in flight.
// The unit of concurrency; batchers meet only in the arena and the backlog.
//
// Work-conserving: with nothing in flight a batch is launched at once, so a lone request never waits; with something in
// flight, requests gather until the thread has taken all events that are ready, and one launch takes them all.
//
// Every method but Deliver is called by the owning thread, with `now` from the monotonic clock where it is asked for.
// `wake` may be called by any thread, and makes the owner call Poll soon.
class Batcher {
 public:
  struct Options {
    BatchLimits batch;
    std::uint32_t max_in_flight = 2;             // batches launched and not finished
    Nanoseconds max_queue_delay{0};              // how long an open batch may wait for company; 0: not at all
    std::uint64_t inline_copy_bytes = 1u << 20;  // larger requests are copied by the backlog's threads
    std::uint64_t gather_bytes = 0;              // requests from this size on are gathered where the lane can; 0: none
    std::uint32_t home = Arena::kNoHome;         // where in the arena its open batches preferably lie
  };

  Batcher(const Options& options, Arena& arena, Backlog& backlog, Lane& lane, Recorder& recorder,
          std::function<void()> wake, Clock clock = SteadyClock::now);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Takes the request: it is completed exactly once, perhaps before this returns. Never blocks.
  void Submit(PendingRequest* request, TimePoint now);

  // Answers a request that was never submitted.
  void Refuse(PendingRequest* request, absl::Status status, RefuseReason reason, std::uint32_t retry_after_ms);

  // Takes what the backlog delivered and what the lane finished, completes it, and launches what may be launched. True:
  // something happened. Reads the clock only then.
  bool Poll();

  // Launches open batches as far as max_in_flight and max_queue_delay allow. Called when no more events are ready.
  void Flush(TimePoint now);

  // Requests taken and not completed, in this batcher or on their way through the backlog.
  std::uint64_t pending() const { return pending_; }
  bool in_flight() const { return !running_.empty(); }
  // Whether open batches should be launched although more events may be ready: the device has nothing to do, and enough
  // has come together to be worth a launch.
  bool MustFlushEarly() const { return running_.empty() && (pending_ >= kEagerRequests || open_bytes_ >= kEagerBytes); }
  bool needs_polling() const { return in_flight() && lane_.needs_polling(); }
  // How long the thread may sleep before it polls again, where it needs to poll; zero: not at all.
  Nanoseconds BeginNap(TimePoint now);
  // When Flush should be called again although nothing happens; kNoDeadline: not at all.
  TimePoint next_flush() const;

  // Whether the request's input should be read where it was received. Any thread.
  bool Gathers(const TensorSpec& spec) const {
    return options_.gather_bytes > 0 && !spec.input_in_region && spec.input_bytes() >= options_.gather_bytes &&
           Batch::NeedOf(spec).input <= lane_.gather_bytes();
  }

  // From the backlog, any thread: a closed batch that holds one request, or a request that failed.
  void Deliver(std::unique_ptr<Batch> batch) ABSL_LOCKS_EXCLUDED(inbox_mu_);
  void DeliverFailure(PendingRequest* request, absl::Status status) ABSL_LOCKS_EXCLUDED(inbox_mu_);

 private:
  static constexpr std::uint64_t kEagerRequests = 64;
  static constexpr std::uint64_t kEagerBytes = 256u << 10;

  struct Failure {
    PendingRequest* request;
    absl::Status status;
  };

  // Of the open batch that may take it.
  static std::size_t OpenIndex(const PendingRequest& request);
  // Ends a pending request that nobody waits for.
  void Drop(PendingRequest* request);
  bool CompleteDropped();
  void RefusePending(PendingRequest* request, absl::Status status, RefuseReason reason, std::uint32_t retry_after_ms);
  void SubmitToBacklog(PendingRequest* request, bool small);
  bool SubmitAlone(PendingRequest* request, TimePoint now);
  // None: there is no room.
  SpanRef Reserve(const Batch::Need& need);
  Batch* OpenBatch(const PendingRequest& request, TimePoint now);
  void CloseOpen(std::size_t index, CloseReason reason);
  // Batches that take long leave no room in flight, but what the lane runs at once needs none.
  bool MayLaunch(const Batch& batch) const {
    return running_.size() < options_.max_in_flight || lane_.RunsAtOnce(batch);
  }
  void LaunchReady(TimePoint now);
  bool TakeInbox();
  FinishForecast& ForecastOf(const Batch& batch) { return forecasts_[batch.device() == Region::kHost ? 0 : 1]; }
  void Finish(std::unique_ptr<Batch> batch, TimePoint now);
  std::unique_ptr<Batch> NewBatch();

  // Constant after construction.
  const Options options_;
  Arena& arena_;
  Backlog& backlog_;
  Lane& lane_;
  Recorder& recorder_;
  const std::function<void()> wake_;
  const Clock clock_;

  // The owning thread's.
  static constexpr std::size_t kTypePairs = 16;
  std::vector<std::unique_ptr<Batch>> open_{kTypePairs};  // kTypePairs for the host, and for each device used by now
  std::uint32_t open_count_ = 0;
  std::uint64_t open_bytes_ = 0;                 // in open batches
  std::deque<std::unique_ptr<Batch>> ready_;     // closed, waiting for the lane
  std::vector<std::unique_ptr<Batch>> dropped_;  // not launched, since all their callers have left; Poll completes them
  std::vector<const Batch*> running_;            // the lane's, in the order of their launches
  std::array<FinishForecast, 2> forecasts_;      // of batches in the host's memory, and in a device's
  bool woke_ = false;                            // whether the thread has slept since the last poll
  std::uint64_t pending_ = 0;
  std::vector<std::unique_ptr<Batch>> spare_;  // finished batches, their lists' memory kept

  Mutex inbox_mu_;
  std::vector<std::unique_ptr<Batch>> inbox_ ABSL_GUARDED_BY(inbox_mu_);
  std::vector<Failure> failures_ ABSL_GUARDED_BY(inbox_mu_);
  std::atomic<bool> inbox_filled_{false};
};

}  // namespace softmax::server
