#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/base/backend.h"
#include "server/base/region.h"
#include "server/batching/charge.h"
#include "server/batching/lane.h"
#include "server/execution/faults.h"
#include "server/execution/topology.h"

namespace softmax::server {

struct ExecutorOptions {
  Backend backend = Backend::kAuto;
  std::vector<int> devices;       // CUDA ordinals; empty: all
  std::uint32_t cpu_threads = 1;  // workers of the CPU backend, beside the completion-queue threads
  std::size_t arena_bytes = 0;
  std::size_t receive_bytes = 0;              // for receive_memory(); backends that copy have none
  std::uint32_t max_in_flight = 2;            // batches a lane runs at a time
  std::uint32_t max_batch_requests = 256;     // segments of one batch at most
  std::uint64_t max_input_bytes = 64u << 20;  // of one batch, or of one request alone
  std::uint32_t queue_threads = 1;            // at home in the arena's first home_bytes, the next, and so on
  std::size_t home_bytes = 0;
  std::string root;             // where /sys is found, for tests
  FaultPlan* faults = nullptr;  // null: none; outlives the executor
};

// Where batches run: owns the arena's memory (pinned for CUDA) and what the lanes share. Everything it needs is
// allocated at creation. Outlives its lanes.
class Executor : public SharedMemorySource {
 public:
  explicit Executor(Topology topology) : topology_(std::move(topology)) {}

  virtual std::string name() const = 0;                  // "cuda", "cpu" or "null"
  virtual std::vector<std::string> devices() const = 0;  // one readable name a device
  virtual std::byte* memory() const = 0;                 // arena_bytes, page-aligned; every device reaches it
  bool computes() const { return name() != "null"; }
  // What its kinds of work take.
  virtual Prices prices() const { return kDevicePrices; }

  // Memory for received messages that every device reads, receive_bytes; empty: none.
  virtual std::span<std::byte> receive_memory() const { return {}; }

  // kSelfTestBytes for the tests of this device (a number below devices().size()), apart from memory().
  virtual std::byte* self_test_memory(std::uint32_t device) const = 0;

  // A lane on this device. `wake` is called from any thread when a batch has finished, unless the lane needs polling. A
  // batch that the lane returns with a status other than OK means that the device has failed for good.
  virtual absl::StatusOr<std::unique_ptr<Lane>> CreateLane(std::uint32_t device, std::function<void()> wake) = 0;

  const Topology& topology() const { return topology_; }

 private:
  const Topology topology_;
};

// Makes the backend that the options ask for. kAuto takes CUDA where a device works, the CPU otherwise, and says in one
// log line what it found and why. The error says what to do.
absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options);

}  // namespace softmax::server
