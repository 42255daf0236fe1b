#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "client/softmax_client/regions.h"
#include "common/base/mutex.h"

// Regions that the library itself copies tensors into (RegionUse::kAuto). Internal. No gRPC here.
namespace softmax::client {

class RegionPool;

// A region of the pool in the hands of one call, and then of its answer. Goes back with the last reference.
class PooledRegion {
 public:
  PooledRegion(std::shared_ptr<RegionPool> pool, std::shared_ptr<RegionMemory> memory, std::uint64_t size)
      : pool_(std::move(pool)), memory_(std::move(memory)), size_(size) {}
  ~PooledRegion();
  PooledRegion(const PooledRegion&) = delete;
  PooledRegion& operator=(const PooledRegion&) = delete;

  const std::shared_ptr<RegionMemory>& memory() const { return memory_; }
  // The server may still write there: it is given up, and no other call gets it.
  void Spoil() { spoilt_ = true; }
  // The server does not know it (any more).
  void Lost();

 private:
  const std::shared_ptr<RegionPool> pool_;
  const std::shared_ptr<RegionMemory> memory_;
  const std::uint64_t size_;  // as the pool counts it
  bool spoilt_ = false;
};

// No call waits for it: a region that is not there is made by the pool's own thread for later calls, and goes again
// when it has not been used for a while. Where the server cannot be asked or refuses, the thread asks again ever later.
// Thread-safe. A pool lives as long as its regions; Close ends its thread.
class RegionPool : public std::enable_shared_from_this<RegionPool> {
 public:
  // `regions` is used until Close. At most `max_bytes` at once, idle or not; idle ones are kept for so long.
  RegionPool(Regions& regions, std::uint64_t max_bytes, std::chrono::nanoseconds kept = std::chrono::seconds(10))
      : regions_(regions), max_bytes_(max_bytes), kept_(kept) {}
  void Start();
  void Close();

  // Null: there is none of that size now.
  std::shared_ptr<PooledRegion> Take(std::uint64_t bytes);

 private:
  friend class PooledRegion;
  using Clock = std::chrono::steady_clock;
  struct Idle {
    std::shared_ptr<RegionMemory> memory;
    Clock::time_point since;
  };

  void Run();
  void Make(std::uint64_t size);
  void Return(const std::shared_ptr<RegionMemory>& memory, std::uint64_t size, bool usable);
  void OnLost();
  // Takes what is no longer wanted out of the pool; it is given back where the result ends.
  std::vector<Idle> TakeOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AskLater(bool refused) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Regions& regions_;
  const std::uint64_t max_bytes_;
  const std::chrono::nanoseconds kept_;

  Mutex mu_;
  ConditionVariable wake_;
  std::multimap<std::uint64_t, Idle> idle_ ABSL_GUARDED_BY(mu_);  // by size; the last used at the end of its size
  std::set<std::uint64_t> wanted_ ABSL_GUARDED_BY(mu_);           // sizes that were not there
  std::uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;                  // of all its regions
  Clock::time_point ask_again_ ABSL_GUARDED_BY(mu_);
  Clock::duration pause_ ABSL_GUARDED_BY(mu_){};  // the last one, while the server gives nothing
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace softmax::client
