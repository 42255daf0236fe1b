#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "common/base/descriptor_packet.h"
#include "softmax/v1/regions.pb.h"

namespace softmax::testing {

// A client of the regions' socket that does nothing but what it is told.
class RegionClient {
 public:
  struct Answer {
    v1::RegionReply reply;
    int descriptor = -1;  // the caller's to close
  };

  explicit RegionClient(const std::string& path) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
    const timeval patience{30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RegionClient() { Close(); }
  RegionClient(const RegionClient&) = delete;
  RegionClient& operator=(const RegionClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  bool Send(const std::string& packet, int flags = 0) {
    return send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL | flags) == static_cast<ssize_t>(packet.size());
  }
  // `descriptor` goes along.
  bool SendWith(const std::string& packet, int descriptor) { return SendPacketWith(fd_, packet, descriptor) >= 0; }

  // Nothing: the server has ended the connection (or half a minute has passed).
  std::optional<Answer> Receive() {
    char bytes[4096];
    Answer answer;
    const ssize_t got = ReceivePacketWith(fd_, bytes, &answer.descriptor);
    if (got <= 0 || !answer.reply.ParseFromArray(bytes, static_cast<int>(got))) return std::nullopt;
    return answer;
  }

  static std::string AllocateRequest(std::uint64_t bytes, v1::RegionMemory memory = v1::REGION_MEMORY_HOST,
                                     std::optional<std::uint32_t> device = std::nullopt) {
    v1::RegionRequest request;
    request.mutable_allocate()->set_memory(memory);
    request.mutable_allocate()->set_bytes(bytes);
    if (device) request.mutable_allocate()->set_device(*device);
    return request.SerializeAsString();
  }
  std::optional<Answer> Allocate(std::uint64_t bytes, v1::RegionMemory memory = v1::REGION_MEMORY_HOST,
                                 std::optional<std::uint32_t> device = std::nullopt) {
    return Send(AllocateRequest(bytes, memory, device)) ? Receive() : std::nullopt;
  }
  std::optional<Answer> Free(const std::string& token) {
    v1::RegionRequest request;
    request.mutable_free()->set_token(token);
    return Send(request.SerializeAsString()) ? Receive() : std::nullopt;
  }

 private:
  int fd_;
  bool connected_ = false;
};

// A region as a client maps it.
class MappedRegion {
 public:
  explicit MappedRegion(const RegionClient::Answer& answer)
      : bytes_(answer.reply.region().bytes()),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, answer.descriptor, 0)) {
    close(answer.descriptor);
  }
  ~MappedRegion() { munmap(data_, bytes_); }
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t bytes_;
  void* const data_;
};

}  // namespace softmax::testing
