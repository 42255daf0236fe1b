#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "server/base/region.h"

namespace softmax::server {

// The regions that requests may name. Each queue thread looks in a list of its own, so that threads do not meet in one
// lock for every request. Thread-safe.
class RegionRegistry {
 public:
  explicit RegionRegistry(std::uint32_t threads) : lists_(threads) {}

  void Add(const std::shared_ptr<const Region>& region);
  // Nobody finds it from now on; requests that hold it go on.
  void Remove(const RegionToken& token);
  // For the queue thread of this number; null: there is none.
  std::shared_ptr<const Region> Find(std::uint32_t thread, const RegionToken& token) const;

 private:
  struct Hash {
    // Tokens are random.
    std::size_t operator()(const RegionToken& token) const {
      std::size_t hash;
      std::memcpy(&hash, token.data(), sizeof(hash));
      return hash;
    }
  };
  struct alignas(128) List {
    mutable Mutex mu;
    std::unordered_map<RegionToken, std::shared_ptr<const Region>, Hash> regions ABSL_GUARDED_BY(mu);
  };

  std::vector<List> lists_;
};

}  // namespace softmax::server
