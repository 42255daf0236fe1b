#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "client/loadgen/histogram.h"

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

// Written by the parent. Times are CLOCK_MONOTONIC nanoseconds, the same in all processes; 0: not
// yet.
struct Control {
  std::atomic<std::int64_t> start_ns;  // the measured window begins
  std::atomic<std::int64_t> end_ns;    // and ends; moved forward to stop early
};

// What one thread saw of one shape within the window. Written by that thread only.
struct ShapeTally {
  Histogram latency;
  std::atomic<std::uint64_t> payload_bytes;  // of the requests, one way
};

struct ThreadTally {
  std::atomic<std::uint64_t> answers;         // good ones, warm-up included: for the progress line
  std::atomic<std::uint64_t> errors[kCodes];  // at any time, by status code
  FirstText first_error;
};

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
  static std::unique_ptr<Board> Create(int processes, int threads, std::size_t shapes);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Control& control() const { return *control_; }
  ProcessTally& process(int p) const { return processes_[p]; }
  ThreadTally& thread(int p, int t) const { return threads_[p * threads_per_process_ + t]; }
  ShapeTally& shape(int p, int t, std::size_t s) const {
    return shapes_[static_cast<std::size_t>(p * threads_per_process_ + t) * shape_count_ + s];
  }

 private:
  Board() = default;

  void* memory_ = nullptr;
  std::size_t size_ = 0;
  int threads_per_process_ = 0;
  std::size_t shape_count_ = 0;
  Control* control_ = nullptr;
  ProcessTally* processes_ = nullptr;
  ThreadTally* threads_ = nullptr;
  ShapeTally* shapes_ = nullptr;
};

std::int64_t NowNs();

}  // namespace softmax::client
