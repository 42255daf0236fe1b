#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "server/regions/refusal.h"

namespace softmax::server {

// How many bytes and regions are given out, of the host's memory and of each device's, and how many may be. A number of
// a device may be Region::kHost. Counts are read by any thread and changed by one.
class RegionBudget {
 public:
  struct Limits {
    std::uint64_t all = 0;         // bytes, of all connections; 0: such memory is not shared
    std::uint64_t connection = 0;  // bytes, of one
  };
  // Small regions cost a mapping each, of which a process may have 65,530.
  static constexpr std::uint32_t kMostRegions = 256;  // of a connection

  // What one connection has.
  class Share {
    friend class RegionBudget;
    std::vector<std::uint64_t> bytes_;
    std::uint32_t regions_ = 0;
  };

  RegionBudget(const Limits& host, const Limits& device, std::uint32_t devices);

  // Takes `bytes`, or says what does not allow it.
  std::optional<RegionRefusal> Take(Share& share, int device, std::uint64_t bytes);
  void GiveBack(Share& share, int device, std::uint64_t bytes);

  const Limits& limits(int device) const { return device < 0 ? host_ : device_; }
  int devices() const { return static_cast<int>(pools_.size()) - 1; }
  // The device with the fewest bytes given out; there is one.
  int LeastUsedDevice() const;
  std::uint64_t bytes(int device) const { return pool(device).bytes.load(std::memory_order_relaxed); }
  std::uint64_t regions(int device) const { return pool(device).regions.load(std::memory_order_relaxed); }

 private:
  struct Pool {
    std::atomic<std::uint64_t> bytes{0}, regions{0};
  };
  static std::size_t IndexOf(int device) { return static_cast<std::size_t>(device) + 1; }
  const Pool& pool(int device) const { return pools_[IndexOf(device)]; }

  const Limits host_, device_;
  std::deque<Pool> pools_;  // of the host, then of each device
};

}  // namespace softmax::server
