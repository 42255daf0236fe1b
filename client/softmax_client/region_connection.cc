#include "client/softmax_client/region_connection.h"

#include <absl/strings/str_cat.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "client/softmax_client/fields.h"
#include "common/base/descriptor_packet.h"

namespace softmax::client {
namespace {

// Every reply of the protocol fits.
constexpr std::size_t kMostReplyBytes = 4096;

enum RegionRequestTag : std::uint32_t { kAllocate = 1 << 3 | 2, kFree = 2 << 3 | 2 };
enum AllocateTag : std::uint32_t { kAllocateMemory = 1 << 3, kAllocateBytes = 2 << 3, kAllocateDevice = 3 << 3 };
enum FreeTag : std::uint32_t { kFreeToken = 1 << 3 | 2 };
enum ReplyTag : std::uint32_t { kReplyStatus = 1 << 3 | 2, kReplyRegion = 2 << 3 | 2 };
enum RegionTag : std::uint32_t {
  kRegionToken = 1 << 3 | 2,
  kRegionBytes = 2 << 3,
  kRegionMemory = 3 << 3,
  kRegionDevice = 4 << 3,
  kRegionUuid = 5 << 3 | 2,
};

std::string Enclosed(std::uint32_t tag, const std::string& inside) {
  std::string packet;
  AppendField(tag, inside.size(), &packet);
  return packet + inside;
}

absl::Status Failed(const std::string& path, const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": ", what, ": ", std::strerror(error)));
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

std::string AllocatePacket(Memory memory, std::uint64_t bytes, std::optional<std::uint32_t> device) {
  std::string inside;
  AppendField(kAllocateMemory, static_cast<std::uint64_t>(memory), &inside);
  AppendField(kAllocateBytes, bytes, &inside);
  if (device) AppendField(kAllocateDevice, *device, &inside);
  return Enclosed(kAllocate, inside);
}

std::string FreePacket(const RegionToken& token) {
  std::string inside;
  AppendField(kFreeToken, token.size(), &inside);
  inside.append(reinterpret_cast<const char*>(token.data()), token.size());
  return Enclosed(kFree, inside);
}

absl::StatusOr<GivenRegion> ReadReply(std::string_view packet, bool wants_region) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(packet.data()), packet.size());
  WireCursor cursor(Slices(&bytes, 1));
  GivenRegion region;
  std::uint64_t code = 0;
  std::string message;
  const bool good = ForEachField(&cursor, [&](std::uint32_t tag) {
    if (tag == kReplyStatus) return ReadFields(&cursor, Into{kStatusCode, &code}, Into{kStatusMessage, &message});
    if (tag != kReplyRegion) return SkipField(&cursor, tag);
    return ReadFields(&cursor, Into{kRegionToken, &region.token}, Into{kRegionBytes, &region.bytes},
                      Into{kRegionMemory, &region.memory}, Into{kRegionDevice, &region.device},
                      Into{kRegionUuid, &region.device_uuid});
  });
  if (!good) return absl::InternalError("the server's reply about regions cannot be decoded");
  if (code != 0) return absl::Status(static_cast<absl::StatusCode>(code), message);
  if (!wants_region) return region;
  const GivenRegion none;
  const bool lacks_device = region.memory == Memory::kDevice && region.device_uuid == none.device_uuid;
  if (region.token == none.token || region.bytes == 0 || lacks_device) {
    return absl::InternalError("the server's reply about regions lacks a token, a size or a device");
  }
  return region;
}

absl::StatusOr<std::shared_ptr<RegionConnection>> RegionConnection::Open(const std::string& path,
                                                                         std::chrono::nanoseconds patience) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("regions_socket: '", path, "' has ", path.size(),
                                                   " bytes, must have 1 to ", sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return Failed(path, "socket", errno);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(patience).count();
  const timeval time{us / 1000000, us % 1000000};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EACCES) return absl::PermissionDeniedError(absl::StrCat(path, ": ", std::strerror(EACCES)));
    return Failed(path, "cannot connect", errno);
  }
  return std::shared_ptr<RegionConnection>(new RegionConnection(path, std::move(fd)));
}

absl::Status RegionConnection::Send(const std::string& packet) {
  if (SendPacketWith(fd_.get(), packet, -1) >= 0) return absl::OkStatus();
  return Failed(path_, "cannot send", errno);
}

absl::StatusOr<std::string> RegionConnection::Receive(int flags, OwnedFd* with) {
  std::string packet(kMostReplyBytes, 0);
  int descriptor = -1;
  ssize_t size = ReceivePacketWith(fd_.get(), packet, &descriptor, flags);
  // What the server said before it closed the connection lies behind the news of that.
  if (size < 0 && errno == ECONNRESET) size = ReceivePacketWith(fd_.get(), packet, &descriptor, flags);
  if (size < 0) return Failed(path_, errno == EAGAIN ? "no reply in time" : "cannot receive", errno);
  if (descriptor >= 0) *with = OwnedFd(descriptor);
  if (size == 0) return absl::UnavailableError(absl::StrCat(path_, ": the server closed the connection"));
  packet.resize(static_cast<std::size_t>(size));
  return packet;
}

absl::StatusOr<GivenRegion> RegionConnection::Allocate(Memory memory, std::uint64_t bytes,
                                                       std::optional<std::uint32_t> device) {
  const MutexLock lock(mu_);
  if (ended_) return absl::UnavailableError(absl::StrCat(path_, ": the connection has ended"));
  const absl::Status sent = Send(AllocatePacket(memory, bytes, device));
  for (;;) {
    OwnedFd fd;
    // Also where nothing could be sent: a server that does not take this user says so by itself.
    auto packet = Receive(0, &fd);
    if (!packet.ok()) {
      ended_ = true;
      return sent.ok() ? packet.status() : sent;
    }
    auto region = ReadReply(*packet, unread_replies_ == 0);
    if (unread_replies_ > 0 && region.status().code() != absl::StatusCode::kPermissionDenied) {
      --unread_replies_;
      continue;
    }
    if (!region.ok()) {
      ended_ = region.status().code() == absl::StatusCode::kPermissionDenied ||
               region.status().code() == absl::StatusCode::kInternal;
      return absl::Status(region.status().code(), absl::StrCat(path_, ": ", region.status().message()));
    }
    if (fd.get() < 0) return absl::InternalError(absl::StrCat(path_, ": the reply has no descriptor"));
    region->fd = std::move(fd);
    return region;
  }
}

void RegionConnection::Free(const RegionToken& token) {
  const MutexLock lock(mu_);
  if (ended_) return;
  SkipReplies();
  if (Send(FreePacket(token)).ok()) {
    ++unread_replies_;
  } else {
    ended_ = true;
  }
}

void RegionConnection::SkipReplies() {
  OwnedFd none;
  while (unread_replies_ > 0 && Receive(MSG_DONTWAIT, &none).ok()) --unread_replies_;
}

bool RegionConnection::ended() {
  const MutexLock lock(mu_);
  SkipReplies();
  pollfd polled{fd_.get(), POLLRDHUP, 0};
  if (poll(&polled, 1, 0) > 0) ended_ = true;
  return ended_;
}

}  // namespace softmax::client
