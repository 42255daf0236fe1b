#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/mutex.h"
#include "server/base/region.h"
#include "server/regions/budget.h"
#include "server/regions/registry.h"

namespace softmax::server {

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
