#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "client/softmax_client/region.h"
#include "common/base/mutex.h"

// The client's side of proto/softmax/v1/regions.proto. Written by hand, as DecodeServerInfo says. No gRPC.
namespace softmax::client {

using RegionToken = std::array<std::uint8_t, 16>;

// A descriptor that is closed at its end.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// A region as the server gave it.
struct GivenRegion {
  RegionToken token = {};
  std::uint64_t bytes = 0;
  Memory memory = Memory::kHost;
  std::uint32_t device = 0;
  std::array<std::uint8_t, 16> device_uuid = {};
  OwnedFd fd;
};

// Packets of the protocol.
std::string AllocatePacket(Memory memory, std::uint64_t bytes, std::optional<std::uint32_t> device);
std::string FreePacket(const RegionToken& token);
// The region, without its descriptor; the server's refusal; INTERNAL: cannot be decoded, or has no region where
// `wants_region`.
absl::StatusOr<GivenRegion> ReadReply(std::string_view packet, bool wants_region);

// One connection. Its regions end with it, and each of them keeps it open. Thread-safe.
class RegionConnection {
 public:
  // Waits no longer than `patience`, here and for each reply. UNAVAILABLE: there is nobody; PERMISSION_DENIED.
  static absl::StatusOr<std::shared_ptr<RegionConnection>> Open(const std::string& path,
                                                                std::chrono::nanoseconds patience);

  // The server's refusal as it came. UNAVAILABLE and ended(): the server is gone, or has not answered in time.
  absl::StatusOr<GivenRegion> Allocate(Memory memory, std::uint64_t bytes, std::optional<std::uint32_t> device);
  // Does not wait for the server.
  void Free(const RegionToken& token);

  // Whether nothing more can be had of it. Looks at the socket.
  bool ended();

 private:
  RegionConnection(std::string path, OwnedFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::Status Send(const std::string& packet) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::string> Receive(int flags, OwnedFd* with) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes replies to frees that have come.
  void SkipReplies() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const OwnedFd fd_;
  Mutex mu_;
  std::size_t unread_replies_ ABSL_GUARDED_BY(mu_) = 0;  // to frees
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace softmax::client
