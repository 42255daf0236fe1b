#include "server/regions/registry.h"

namespace softmax::server {

void RegionRegistry::Add(const std::shared_ptr<const Region>& region) {
  for (List& list : lists_) {
    const MutexLock lock(list.mu);
    list.regions.emplace(region->token(), region);
  }
}

void RegionRegistry::Remove(const RegionToken& token) {
  for (List& list : lists_) {
    // Freed behind the lock: giving memory back takes its time.
    std::shared_ptr<const Region> last;
    const MutexLock lock(list.mu);
    const auto found = list.regions.find(token);
    if (found == list.regions.end()) continue;
    last = std::move(found->second);
    list.regions.erase(found);
  }
}

std::shared_ptr<const Region> RegionRegistry::Find(std::uint32_t thread, const RegionToken& token) const {
  const List& list = lists_[thread];
  const MutexLock lock(list.mu);
  const auto found = list.regions.find(token);
  return found == list.regions.end() ? nullptr : found->second;
}

}  // namespace softmax::server
