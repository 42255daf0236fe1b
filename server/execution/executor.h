#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/batching/lane.h"

namespace softmax::server {

enum class BackendKind : std::uint8_t { kAuto, kCuda, kCpu, kNull };

struct ExecutorOptions {
  BackendKind kind = BackendKind::kAuto;
  std::vector<int> devices;       // CUDA ordinals; empty: all
  std::uint32_t cpu_threads = 1;  // workers of the CPU backend, beside the completion-queue threads
  std::size_t arena_bytes = 0;
  std::uint32_t lanes = 1;
  std::uint32_t max_in_flight = 2;         // batches a lane runs at a time
  std::uint32_t max_batch_requests = 256;  // segments of one batch at most
};

// Where batches run: owns the arena's memory (pinned for CUDA) and what the lanes share. Everything it needs is
// allocated at creation. Outlives its lanes.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::string name() const = 0;                  // "cuda", "cpu" or "null"
  virtual std::vector<std::string> devices() const = 0;  // one readable name a device
  virtual std::byte* memory() const = 0;                 // arena_bytes, page-aligned

  // Lane number `index` of ExecutorOptions::lanes. `wake` is called from any thread when a batch has finished, unless
  // the lane needs polling.
  virtual absl::StatusOr<std::unique_ptr<Lane>> CreateLane(std::uint32_t index, std::function<void()> wake) = 0;

  // Not OK: a device failed for good; the process has to be replaced. Any thread.
  virtual absl::Status health() const = 0;
};

// Makes the backend that the options ask for. kAuto takes CUDA where a device works, the CPU otherwise, and says in one
// log line what it found and why. The error says what to do.
absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options);

// A softmax with known answers through a new lane of the backend, read back and checked.
absl::Status SelfTest(Executor& executor, Lane& lane);

}  // namespace softmax::server
