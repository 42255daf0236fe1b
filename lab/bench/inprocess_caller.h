#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/loadgen/measure/histogram.h"
#include "server/batching/batcher.h"
#include "server/metrics/metrics.h"

namespace softmax::bench {

// What every caller thread does.
struct CallerLoad {
  std::int64_t rows = 1;  // of one request, float32
  std::int64_t columns = 1024;
  std::uint32_t in_flight = 64;  // requests a thread keeps unanswered
  bool verify = true;            // whether the backend computes at all
};

// Counts of one caller within the measured window, and of its checks outside of it.
struct CallerFigures {
  std::uint64_t answered = 0;
  std::uint64_t failed = 0;  // any status but OK
  std::uint64_t batches = 0;
  std::uint64_t batch_requests = 0;
  std::uint64_t batch_rows = 0;
  Nanoseconds execution{0};  // of all batches together
  std::uint64_t judged = 0;
  std::uint64_t wrong = 0;
  std::string first_failure;  // or the first wrong answer
};

// A queue thread of the server without its queue: it owns a batcher and a lane, takes "events" (requests of its own
// that were answered and start again), copies their bytes in, launches and polls in the queue thread's order. The
// requests' bytes lie in memory of their own, as received slices would. Every request's first answer, and its last
// after the measured window, is judged against the reference.
class Caller {
 public:
  enum class Phase : std::uint8_t { kWarmUp, kMeasure, kStop };

  Caller(const CallerLoad& load, const server::Batcher::Options& options, server::Arena& arena,
         server::Backlog& backlog, std::uint64_t seed);
  ~Caller();  // Stops.

  // For DeviceGroup::CreateLane.
  std::function<void()> wake() {
    return [this] { Wake(); };
  }
  void Start(std::unique_ptr<server::Lane> lane);
  // kStop answers what is in flight and ends the thread; Join waits for that.
  void Set(Phase phase);
  void Join();

  // After Join.
  const CallerFigures& figures() const { return figures_; }
  const client::Histogram& latency() const { return *latency_; }

 private:
  class Request;
  class BatchCounts;

  void Wake() {
    wakes_.fetch_add(1, std::memory_order_release);
    wakes_.notify_one();
  }
  void Run();
  void SubmitIdle();
  void Judge(Request& request);

  const CallerLoad load_;
  const server::Batcher::Options options_;
  server::Arena& arena_;
  server::Backlog& backlog_;

  std::atomic<Phase> phase_{Phase::kWarmUp};
  std::atomic<std::uint32_t> wakes_{0};

  // The thread's own until it is joined.
  CallerFigures figures_;
  const std::unique_ptr<client::Histogram> latency_;
  const std::unique_ptr<BatchCounts> counts_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::deque<Request*> idle_;  // oldest first, as events come
  std::unique_ptr<server::Lane> lane_;
  std::unique_ptr<server::Batcher> batcher_;
  std::thread thread_;
};

}  // namespace softmax::bench
