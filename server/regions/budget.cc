#include "server/regions/budget.h"

#include <absl/strings/str_cat.h>

namespace softmax::server {

RegionBudget::RegionBudget(const Limits& host, const Limits& device, std::uint32_t devices)
    : host_(host), device_(device), pools_(devices + 1) {}

std::optional<RegionRefusal> RegionBudget::Take(Share& share, int device, std::uint64_t bytes) {
  share.bytes_.resize(pools_.size());
  Pool& pool = pools_[IndexOf(device)];
  std::uint64_t& own = share.bytes_[IndexOf(device)];
  const Limits& most = limits(device);
  const std::uint64_t given = pool.bytes.load(std::memory_order_relaxed);
  if (share.regions_ >= kMostRegions) {
    return RegionRefusal{RegionRefusal::kConnectionRegions,
                         absl::StrCat("this connection has ", share.regions_, " regions, as many as it may")};
  }
  if (bytes > most.connection - own) {
    return RegionRefusal{RegionRefusal::kConnectionBytes,
                         absl::StrCat("bytes=", bytes, ": this connection has ", own, " of the ", most.connection,
                                      " that it may (--regions-", device < 0 ? "" : "device-", "connection-bytes)")};
  }
  if (bytes > most.all - given) {
    return RegionRefusal{RegionRefusal::kAllBytes,
                         absl::StrCat("bytes=", bytes, ": ", given, " of ", most.all, " are given out (--regions-",
                                      device < 0 ? "" : "device-", "bytes)")};
  }
  own += bytes;
  ++share.regions_;
  pool.bytes.store(given + bytes, std::memory_order_relaxed);
  pool.regions.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

void RegionBudget::GiveBack(Share& share, int device, std::uint64_t bytes) {
  share.bytes_[IndexOf(device)] -= bytes;
  --share.regions_;
  Pool& pool = pools_[IndexOf(device)];
  pool.bytes.fetch_sub(bytes, std::memory_order_relaxed);
  pool.regions.fetch_sub(1, std::memory_order_relaxed);
}

int RegionBudget::LeastUsedDevice() const {
  int least = 0;
  for (int device = 1; device < devices(); ++device) {
    if (bytes(device) < bytes(least)) least = device;
  }
  return least;
}

}  // namespace softmax::server
