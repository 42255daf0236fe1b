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
