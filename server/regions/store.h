#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/mutex.h"
#include "server/base/region.h"
#include "server/regions/refusal.h"
#include "server/regions/registry.h"

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

// Makes regions within the budget, and gives their memory back once nobody uses it. The last who does is often a
// thread that serves requests, and giving back takes up to a tenth of a second for a GiB: so a region's end only leaves
// a note here. One thread, but for that.
class RegionStore {
 public:
  // `keeps_memory`: a device was lost, and may still write in any region, or its driver wait for it for ever: nothing
  // is made or given back from then on, and the process is to be replaced. `wake` is called from any thread: there is
  // something to give back. All outlives this; `wake` may be called until the last region has ended.
  RegionStore(SharedMemorySource& source, RegionBudget& budget, std::function<bool()> keeps_memory,
              std::function<void()> wake);

  struct Made {
    std::shared_ptr<const Region> region;
    int descriptor;  // the caller's to close
  };
  // `bytes` > 0 is rounded up to whole pages of the memory.
  std::variant<Made, RegionRefusal> Make(const std::shared_ptr<RegionBudget::Share>& share, int device,
                                         std::uint64_t bytes);

  // Gives back the memory of one region that has ended; false: there is none.
  bool GiveBackOne();
  bool has_ended() const { return ended_->any(); }

 private:
  struct Ended {
    std::function<void()> free;
    std::shared_ptr<RegionBudget::Share> share;
    int device;
    std::uint64_t bytes;
  };
  // Outlives this, where requests do.
  class EndedList {
   public:
    explicit EndedList(std::function<void()> wake) : wake_(std::move(wake)) {}
    void Add(Ended ended) ABSL_LOCKS_EXCLUDED(mu_);
    bool Take(Ended* ended) ABSL_LOCKS_EXCLUDED(mu_);
    bool any() const ABSL_LOCKS_EXCLUDED(mu_);

   private:
    const std::function<void()> wake_;
    mutable Mutex mu_;
    std::vector<Ended> list_ ABSL_GUARDED_BY(mu_);
  };

  SharedMemorySource& source_;
  RegionBudget& budget_;
  const std::function<bool()> keeps_memory_;
  const std::shared_ptr<EndedList> ended_;
};

}  // namespace softmax::server
