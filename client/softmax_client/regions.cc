#include "client/softmax_client/regions.h"

#include <absl/strings/str_cat.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace softmax::client {
namespace {

absl::Status CheckInside(std::size_t offset, std::size_t bytes, std::size_t size) {
  if (offset <= size && bytes <= size - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("offset: ", offset, " and ", bytes, " bytes, must lie within the region's ", size));
}

absl::StatusOr<std::byte*> MapHost(int fd, std::uint64_t bytes) {
  struct stat file = {};
  // Beyond a file's end a mapping ends the process.
  if (fstat(fd, &file) != 0 || static_cast<std::uint64_t>(file.st_size) < bytes) {
    return absl::InternalError(absl::StrCat("a region of ", bytes, " bytes came with ", file.st_size));
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED) return static_cast<std::byte*>(memory);
  return absl::ResourceExhaustedError(
      absl::StrCat("a region of ", bytes, " bytes cannot be mapped: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<RegionMemory>> RegionMemory::Map(std::shared_ptr<RegionConnection> connection,
                                                                std::shared_ptr<RegionIndex> index, GivenRegion given) {
  std::shared_ptr<RegionMemory> region(new RegionMemory(std::move(connection), std::move(index), std::move(given)));
  if (region->memory() == Memory::kDevice) {
    auto mapping = DeviceMapping::Map(region->given_.fd.get(), region->size(), region->given_.device_uuid);
    if (!mapping.ok()) return mapping.status();
    region->on_device_ = *std::move(mapping);
    region->data_ = region->on_device_->data();
  } else {
    const auto data = MapHost(region->given_.fd.get(), region->size());
    if (!data.ok()) return data.status();
    region->data_ = *data;
  }
  region->given_.fd = OwnedFd();
  region->index_->Add(region);
  return region;
}

RegionMemory::RegionMemory(std::shared_ptr<RegionConnection> connection, std::shared_ptr<RegionIndex> index,
                           GivenRegion given)
    : connection_(std::move(connection)), index_(std::move(index)), given_(std::move(given)) {}

RegionMemory::~RegionMemory() {
  if (data_ != nullptr) index_->Remove(*this);
  if (data_ != nullptr && on_device_ == nullptr) munmap(data_, size());
  on_device_.reset();
  connection_->Free(given_.token);
}

void RegionIndex::Add(const std::shared_ptr<RegionMemory>& region) {
  const MutexLock lock(mu_);
  by_begin_[region->data()] = region;
  count_.store(by_begin_.size(), std::memory_order_relaxed);
}

void RegionIndex::Remove(const RegionMemory& region) {
  const MutexLock lock(mu_);
  by_begin_.erase(region.data());
  count_.store(by_begin_.size(), std::memory_order_relaxed);
}

RegionPlace RegionIndex::Find(std::span<const std::byte> bytes, std::size_t alignment) const {
  if (bytes.empty() || count_.load(std::memory_order_relaxed) == 0) return {};
  std::shared_ptr<RegionMemory> region;
  {
    const MutexLock lock(mu_);
    const auto after = by_begin_.upper_bound(bytes.data());
    if (after == by_begin_.begin()) return {};
    region = std::prev(after)->second.lock();
  }
  if (!region) return {};
  const auto offset = static_cast<std::uint64_t>(bytes.data() - region->data());
  if (!CheckInside(offset, bytes.size(), region->size()).ok()) return {};
  if (offset % alignment != 0 && region->memory() == Memory::kHost) return {};
  return {std::move(region), offset};
}

absl::StatusOr<std::shared_ptr<RegionConnection>> Regions::Connect() {
  if (connection_ && !connection_->ended()) return connection_;
  connection_.reset();
  const auto path = find_socket_();
  if (!path.ok()) return path.status();
  auto opened = RegionConnection::Open(*path, patience_);
  if (opened.ok()) connection_ = *opened;
  return opened;
}

absl::StatusOr<std::shared_ptr<RegionMemory>> Regions::AllocateMemory(std::uint64_t bytes, Memory memory,
                                                                      std::optional<std::uint32_t> device) {
  if (bytes == 0) return absl::InvalidArgumentError("bytes: 0, must be above 0");
  std::shared_ptr<RegionConnection> connection;
  {
    const MutexLock lock(mu_);
    auto connected = Connect();
    if (!connected.ok()) return connected.status();
    connection = *std::move(connected);
  }
  auto given = connection->Allocate(memory, bytes, device);
  if (!given.ok()) return given.status();
  if (given->memory != memory || given->bytes < bytes) {
    connection->Free(given->token);
    return absl::InternalError(absl::StrCat("the server gave ", given->bytes, " bytes of memory ",
                                            static_cast<int>(given->memory), ", and ", bytes, " of memory ",
                                            static_cast<int>(memory), " were asked for"));
  }
  return RegionMemory::Map(std::move(connection), index_, *std::move(given));
}

absl::StatusOr<Region> Regions::Allocate(std::uint64_t bytes, Memory memory, std::optional<std::uint32_t> device) {
  auto region = AllocateMemory(bytes, memory, device);
  if (!region.ok()) return region.status();
  return Region(*std::move(region));
}

std::byte* Region::data() const { return memory_ ? memory_->data() : nullptr; }
std::size_t Region::size() const { return memory_ ? memory_->size() : 0; }
Memory Region::memory() const { return memory_ ? memory_->memory() : Memory::kHost; }
std::uint32_t Region::device() const { return memory_ ? memory_->device() : 0; }
int Region::cuda_device() const { return memory_ && memory_->on_device() ? memory_->on_device()->device() : -1; }

absl::Status Region::Write(std::size_t offset, std::span<const std::byte> from) const {
  absl::Status inside = CheckInside(offset, from.size(), size());
  if (!inside.ok() || from.empty()) return inside;
  if (memory_->on_device() != nullptr) return memory_->on_device()->Write(offset, from);
  std::memcpy(data() + offset, from.data(), from.size());
  return absl::OkStatus();
}

absl::Status Region::Read(std::size_t offset, std::span<std::byte> to) const {
  absl::Status inside = CheckInside(offset, to.size(), size());
  if (!inside.ok() || to.empty()) return inside;
  if (memory_->on_device() != nullptr) return memory_->on_device()->Read(offset, to);
  std::memcpy(to.data(), data() + offset, to.size());
  return absl::OkStatus();
}

}  // namespace softmax::client
