#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "client/loadgen/measure/histogram.h"

// Where the sending processes write down what they see and the parent reads it: one block of memory
// shared between them, made before they are forked, so that nothing has to be sent or merged on the
// way. All of it starts as zeros.
namespace softmax::client {

inline constexpr int kCodes = 17;  // grpc::StatusCode 0 to 16

// One line of text that the first writer wins.
class FirstText {
 public:
  void Set(const char* text);
  const char* Get() const { return ready_.load(std::memory_order_acquire) ? text_ : ""; }

 private:
  std::atomic<bool> taken_;
  std::atomic<bool> ready_;
  char text_[512];
};

// Later than any time that is met: the window's borders while they are not known.
inline constexpr std::int64_t kNever = std::int64_t{1} << 62;

// Written by the parent. Times are CLOCK_MONOTONIC nanoseconds, the same in all processes.
struct Control {
  std::atomic<std::int64_t> go_ns;     // sending begins, with the warm-up; 0: not yet
  std::atomic<std::int64_t> start_ns;  // the measured window begins; kNever while the warm-up has no end
  std::atomic<std::int64_t> end_ns;    // and ends; moved forward to stop early
};

// What one thread saw of one class of requests. Written by that thread only. A request belongs to the window in a
// closed loop when its answer came within it, in an open loop when it was due within it.
struct ClassTally {
  Histogram latency;                         // of the window's requests, from the moment they were due
  std::atomic<std::uint64_t> answered;       // good answers that came within the window
  std::atomic<std::uint64_t> payload_bytes;  // of their requests, one way
  std::atomic<std::uint64_t> within_slo;     // of the window's requests, those answered in time
};

// What one thread saw of one address. Written by that thread only. Of the window's requests.
struct alignas(64) AddressTally {
  std::atomic<std::uint64_t> attempts;
  std::atomic<std::uint64_t> answered;
  std::atomic<std::uint64_t> failed;  // attempts; some of their requests were answered by another one
};

struct alignas(64) ThreadTally {
  std::atomic<std::uint64_t> answers;  // good ones, warm-up included: for the progress line
  // By status code: of the requests that `sent` counts, and of the others, which are the warm-up's.
  std::atomic<std::uint64_t> errors[kCodes];
  std::atomic<std::uint64_t> warmup_errors[kCodes];
  FirstText first_error;            // of both
  std::atomic<std::uint64_t> sent;  // in the window
  // Open loop, in the window: due when every slot was taken; due when the thread was so far behind that the window
  // was over; sent more than kLateNs behind time.
  std::atomic<std::uint64_t> dropped_full;
  std::atomic<std::uint64_t> dropped_behind;
  std::atomic<std::uint64_t> late;
  // Of the window's requests: attempts that failed and were made again, by status code; those that the budget for
  // retries did not allow to be made again.
  std::atomic<std::uint64_t> retried[kCodes];
  std::atomic<std::uint64_t> throttled;
  std::atomic<std::int64_t> cpu_ns;  // of this thread in the window
  Histogram warmup;                  // latencies before the window
  Histogram service;                 // open loop: of the window's requests, from the actual send
  Histogram lag;                     // open loop: from the moment a request was due to its send
};

inline constexpr std::int64_t kLateNs = 1000000;

enum class ProcessState : int { kStarting = 0, kConnected = 1, kUnreachable = 2, kDone = 3 };

struct ProcessTally {
  std::atomic<ProcessState> state;
  std::atomic<std::uint64_t> verified;  // answers compared with a judged one, or judged
  std::atomic<std::uint64_t> judged;    // against the reference
  std::atomic<std::uint64_t> wrong;
  std::atomic<std::int64_t> cpu_ns;  // within the window
  FirstText first_wrong;
  FirstText failure;
};

// Owned by the parent; children use their inherited mapping.
class Board {
 public:
  // nullptr: there is no memory for it.
  static std::unique_ptr<Board> Create(int processes, int threads, std::size_t classes, std::size_t addresses = 1);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Control& control() const { return *control_; }
  ProcessTally& process(int p) const { return processes_[p]; }
  ThreadTally& thread(int p, int t) const { return threads_[IndexOf(p, t)]; }
  ClassTally& of_class(int p, int t, std::size_t c) const { return classes_[IndexOf(p, t) * class_count_ + c]; }
  AddressTally& of_address(int p, int t, std::size_t a) const { return addresses_[IndexOf(p, t) * address_count_ + a]; }

  int processes() const { return process_count_; }
  std::size_t classes() const { return class_count_; }
  std::size_t addresses() const { return address_count_; }
  // Calls `visit` with each thread's tally, in all, of that class, of that address.
  template <typename Visit>
  void EachThread(const Visit& visit) const {
    for (std::size_t i = 0; i < thread_count(); ++i) visit(threads_[i]);
  }
  template <typename Visit>
  void EachOfClass(std::size_t c, const Visit& visit) const {
    for (std::size_t i = 0; i < thread_count(); ++i) visit(classes_[i * class_count_ + c]);
  }
  template <typename Visit>
  void EachOfAddress(std::size_t a, const Visit& visit) const {
    for (std::size_t i = 0; i < thread_count(); ++i) visit(addresses_[i * address_count_ + a]);
  }

 private:
  Board() = default;

  std::size_t IndexOf(int p, int t) const {
    return static_cast<std::size_t>(p) * static_cast<std::size_t>(threads_per_process_) + static_cast<std::size_t>(t);
  }
  std::size_t thread_count() const { return IndexOf(process_count_, 0); }

  void* memory_ = nullptr;
  std::size_t size_ = 0;
  int process_count_ = 0;
  int threads_per_process_ = 0;
  std::size_t class_count_ = 0;
  std::size_t address_count_ = 0;
  Control* control_ = nullptr;
  ProcessTally* processes_ = nullptr;
  ThreadTally* threads_ = nullptr;
  ClassTally* classes_ = nullptr;
  AddressTally* addresses_ = nullptr;
};

// Of what was not measured.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// What happened between the point before and this one.
struct TimelinePoint {
  double t_s = 0;  // the end of the stretch, from the start of the window
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;  // answers that came, whenever their requests were due
  std::uint64_t errors = 0;
  double p50_us = kUnknown;  // kUnknown without an answer
  double p99_us = kUnknown;
};

// Reads the board from time to time and notes what is new. Used by the parent. The board must outlive it.
class TimelineReader {
 public:
  explicit TimelineReader(const Board& board);

  // What came since the last call.
  TimelinePoint Read(double t_s);

 private:
  const Board& board_;
  std::unique_ptr<Histogram> before_;  // all latencies at the last call, warm-up included
  TimelinePoint totals_;               // the counts at the last call
};

// Whether the last three points agree: their rates and medians differ by at most this fraction of the largest.
bool LastAgree(const std::vector<TimelinePoint>& points, double within);

std::int64_t NowNs();
// Returns at once when that was before now.
void SleepUntil(std::int64_t ns);

}  // namespace softmax::client
