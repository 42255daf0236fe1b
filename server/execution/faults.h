#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace softmax::server {

// What tests make a server's devices and memory do: --fault, a list with commas, which needs --unsafe-testing.
//   devices:N           one device poses as N of them, so that the loss of one can be seen without several
//   error:N[@D]         launch number N, counted from 1 over all devices (or over device D), is refused
//   sticky:N[@D]        launch number N runs into an error, and so does every later one on its device
//   hang:N[@D]          launch number N and every one after it (of device D) never ends
//   late:TIME[@D]       every batch (of device D) is reported TIME of running time later than it finished
//   alloc:N             allocation number N of the start is refused
//   gather              the CPU reads tensors where they were received, as a GPU does
//   slabs:N             all slabs of the arena but N are taken for good
//   cuda:CALL:N[:CODE]  call number N of this CUDA function returns this error (default 999, cudaErrorUnknown)
struct LaunchFault {
  static constexpr std::int64_t kAnyDevice = -1;
  enum class Kind : std::uint8_t { kError, kSticky, kHang, kLate };
  Kind kind = Kind::kError;
  std::uint64_t launch = 0;
  Nanoseconds delay{0};
  std::int64_t device = kAnyDevice;
};

struct CallFault {
  std::string call;  // "cudaSetDevice"
  std::uint64_t number = 0;
  int error = 0;
};

struct Faults {
  std::vector<LaunchFault> launches;
  std::vector<CallFault> calls;
  std::uint64_t devices = 0;     // 0: those there are
  std::uint64_t allocation = 0;  // 0: none is refused
  std::uint64_t slabs_left = 0;  // 0: all
  bool gather = false;
  bool any() const {
    return !launches.empty() || !calls.empty() || devices != 0 || allocation != 0 || slabs_left != 0 || gather;
  }
};

// The faults of one server and its counts towards them. It is asked only where there is a plan: without one (a
// null pointer) nothing is counted, and lanes have no code of it. Thread-safe.
class FaultPlan {
 public:
  static constexpr std::size_t kMaxDevices = 64;
  enum class Launch : std::uint8_t { kRuns, kRefused, kCrashes, kHangs };

  explicit FaultPlan(const Faults& faults) : faults_(faults), calls_(faults.calls.size()) {}

  const Faults& faults() const { return faults_; }
  // What becomes of the next launch on this device.
  Launch NextLaunch(std::uint32_t device);
  std::uint64_t LaunchesOf(std::uint32_t device) const { return devices_[device % kMaxDevices].launches.load(); }
  Nanoseconds DelayOf(std::uint32_t device) const;
  // Whether the next allocation is refused.
  bool RefusesAllocation();
  // The error that this call returns instead of being made; 0: it is made.
  int NextCall(const char* call);

 private:
  struct Device {
    std::atomic<std::uint64_t> launches{0};
    std::atomic<bool> stuck{false};
  };

  const Faults faults_;
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> allocations_{0};
  std::vector<std::atomic<std::uint64_t>> calls_;
  Device devices_[kMaxDevices];
};

}  // namespace softmax::server
