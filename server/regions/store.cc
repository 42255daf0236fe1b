#include "server/regions/store.h"

#include <absl/strings/str_cat.h>
#include <sys/random.h>

#include <cerrno>

namespace softmax::server {
namespace {

bool FillRandom(RegionToken* token) {
  ssize_t got;
  do {
    got = getrandom(token->data(), token->size(), 0);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(token->size());
}

}  // namespace

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

void RegionStore::EndedList::Add(Ended ended) {
  {
    const MutexLock lock(mu_);
    list_.push_back(std::move(ended));
  }
  wake_();
}

bool RegionStore::EndedList::Take(Ended* ended) {
  const MutexLock lock(mu_);
  if (list_.empty()) return false;
  *ended = std::move(list_.back());
  list_.pop_back();
  return true;
}

bool RegionStore::EndedList::any() const {
  const MutexLock lock(mu_);
  return !list_.empty();
}

RegionStore::RegionStore(SharedMemorySource& source, RegionBudget& budget, std::function<bool()> keeps_memory,
                         std::function<void()> wake)
    : source_(source),
      budget_(budget),
      keeps_memory_(std::move(keeps_memory)),
      ended_(std::make_shared<EndedList>(std::move(wake))) {}

std::variant<RegionStore::Made, RegionRefusal> RegionStore::Make(const std::shared_ptr<RegionBudget::Share>& share,
                                                                 int device, std::uint64_t bytes) {
  if (keeps_memory_()) return RegionRefusal{RegionRefusal::kUnavailable, "a device was lost: there are no new regions"};
  const std::uint64_t most = budget_.limits(device).connection;
  if (bytes > most) {
    return RegionRefusal{RegionRefusal::kInvalid,
                         absl::StrCat("bytes=", bytes, ": a connection may have at most ", most, " (--regions-",
                                      device < 0 ? "" : "device-", "connection-bytes)")};
  }
  const std::uint64_t page = source_.shared_page(device);
  const std::uint64_t whole = (bytes + page - 1) / page * page;
  RegionToken token;
  if (!FillRandom(&token)) return RegionRefusal{RegionRefusal::kNoMemory, "the system has no random bytes"};
  std::optional<RegionRefusal> refusal;
  while ((refusal = budget_.Take(*share, device, whole)) && GiveBackOne()) {
  }
  if (refusal) return *std::move(refusal);
  absl::StatusOr<SharedMemory> memory = source_.MakeShared(device, whole);
  if (!memory.ok()) {
    budget_.GiveBack(*share, device, whole);
    return RegionRefusal{RegionRefusal::kNoMemory,
                         absl::StrCat("bytes=", bytes, ": ", std::string(memory.status().message()))};
  }
  Ended end{std::move(memory->free), share, device, whole};
  auto region = std::make_shared<const Region>(token, memory->data, whole, device,
                                               [list = ended_, end = std::move(end)] { list->Add(end); });
  return Made{std::move(region), memory->descriptor};
}

bool RegionStore::GiveBackOne() {
  Ended ended;
  if (keeps_memory_() || !ended_->Take(&ended)) return false;
  ended.free();
  budget_.GiveBack(*ended.share, ended.device, ended.bytes);
  return true;
}

}  // namespace softmax::server
