#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/softmax_client/cuda_driver.h"
#include "client/softmax_client/region.h"
#include "client/softmax_client/region_connection.h"
#include "common/base/mutex.h"

// The regions of a client. Internal. No gRPC here.
namespace softmax::client {

class RegionIndex;

// A region's memory as it is mapped here. Whoever uses it holds a reference; with the last it goes back to the server.
class RegionMemory {
 public:
  static absl::StatusOr<std::shared_ptr<RegionMemory>> Map(std::shared_ptr<RegionConnection> connection,
                                                           std::shared_ptr<RegionIndex> index, GivenRegion given);
  ~RegionMemory();
  RegionMemory(const RegionMemory&) = delete;
  RegionMemory& operator=(const RegionMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return given_.bytes; }
  Memory memory() const { return given_.memory; }
  std::uint32_t device() const { return given_.device; }
  const RegionToken& token() const { return given_.token; }
  const DeviceMapping* on_device() const { return on_device_.get(); }  // nullptr: host memory

 private:
  RegionMemory(std::shared_ptr<RegionConnection> connection, std::shared_ptr<RegionIndex> index, GivenRegion given);

  const std::shared_ptr<RegionConnection> connection_;
  const std::shared_ptr<RegionIndex> index_;
  GivenRegion given_;
  std::byte* data_ = nullptr;
  std::unique_ptr<DeviceMapping> on_device_;
};

// Where bytes lie in a region; without one: they lie in none.
struct RegionPlace {
  std::shared_ptr<RegionMemory> region;
  std::uint64_t offset = 0;

  explicit operator bool() const { return region != nullptr; }
};

// All of them by their addresses. Thread-safe.
class RegionIndex {
 public:
  void Add(const std::shared_ptr<RegionMemory>& region);
  void Remove(const RegionMemory& region);

  // The place of these bytes. None: they are not, or not all of them, inside one region; or they are in host memory and
  // not aligned so, and have to travel.
  RegionPlace Find(std::span<const std::byte> bytes, std::size_t alignment) const;

 private:
  // Most clients have none, and should not pay for asking.
  std::atomic<std::size_t> count_ = 0;
  mutable Mutex mu_;
  std::map<const std::byte*, std::weak_ptr<RegionMemory>> by_begin_ ABSL_GUARDED_BY(mu_);
};

// Makes them, over one connection to the server's socket, which is opened when first needed and again when it has
// ended. Thread-safe.
class Regions {
 public:
  // `find_socket`: its path, asked for before each connection.
  Regions(std::function<absl::StatusOr<std::string>()> find_socket, std::chrono::nanoseconds patience)
      : find_socket_(std::move(find_socket)), patience_(patience) {}

  absl::StatusOr<Region> Allocate(std::uint64_t bytes, Memory memory, std::optional<std::uint32_t> device = {});
  absl::StatusOr<std::shared_ptr<RegionMemory>> AllocateMemory(std::uint64_t bytes, Memory memory,
                                                               std::optional<std::uint32_t> device);

  RegionPlace Find(std::span<const std::byte> bytes, std::size_t alignment) const {
    return index_->Find(bytes, alignment);
  }

 private:
  absl::StatusOr<std::shared_ptr<RegionConnection>> Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<absl::StatusOr<std::string>()> find_socket_;
  const std::chrono::nanoseconds patience_;
  const std::shared_ptr<RegionIndex> index_ = std::make_shared<RegionIndex>();
  Mutex mu_;
  std::shared_ptr<RegionConnection> connection_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::client
