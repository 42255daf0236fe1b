#include "tests/client/support/fake_regions.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/descriptor_packet.h"
#include "tests/client/support/fake_device.h"
#include "tests/support/eventually.h"

namespace softmax::client {
namespace {

constexpr int kPollMs = 2;
constexpr int kMostMs = 10000;

}  // namespace

FakeRegions::FakeRegions(std::string path) : path_(std::move(path)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  listen(listener_, 16);
  thread_ = std::thread([this] { Run(); });
}

FakeRegions::~FakeRegions() {
  stopping_ = true;
  thread_.join();
  close(listener_);
  unlink(path_.c_str());
}

std::size_t FakeRegions::regions() const {
  std::lock_guard lock(mu_);
  return by_token_.size();
}

void FakeRegions::EndAll() {
  end_all_ = true;
  testing::Eventually([this] { return !end_all_; }, std::chrono::seconds(60));
}

std::span<std::byte> FakeRegions::At(const softmax::v1::Place& place, std::size_t bytes) const {
  std::lock_guard lock(mu_);
  const auto found = by_token_.find(place.region());
  if (found == by_token_.end() || place.offset() > found->second.bytes) return {};
  if (bytes > found->second.bytes - place.offset()) return {};
  return {found->second.memory + place.offset(), bytes};
}

void FakeRegions::Run() {
  while (!stopping_) {
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const int connection : open_) polled.push_back({connection, POLLIN, 0});
    poll(polled.data(), polled.size(), kPollMs);
    if (end_all_) {
      for (const int connection : std::exchange(open_, {})) End(connection);
      end_all_ = false;
      continue;
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || Answer(polled[i].fd)) continue;
      open_.erase(std::find(open_.begin(), open_.end(), polled[i].fd));
      End(polled[i].fd);
    }
    if (polled[0].revents == 0) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    ++connections_;
    if (behavior_.not_your_user) {
      softmax::v1::RegionReply reply;
      reply.mutable_status()->set_code(7);
      reply.mutable_status()->set_message("not this user");
      SendPacketWith(connection, reply.SerializeAsString(), -1);
      // What it asks for is not read: to the client that is a reset.
      pollfd asked{connection, POLLIN, 0};
      poll(&asked, 1, kMostMs);
      close(connection);
      continue;
    }
    open_.push_back(connection);
  }
  for (const int connection : open_) End(connection);
}

bool FakeRegions::Answer(int connection) {
  char packet[4096];
  const ssize_t size = recv(connection, packet, sizeof(packet), MSG_DONTWAIT);
  softmax::v1::RegionRequest request;
  if (size <= 0 || !request.ParseFromArray(packet, static_cast<int>(size))) return false;
  if (behavior_.silent) return true;
  softmax::v1::RegionReply reply;
  reply.mutable_status();
  int fd = -1;
  if (request.has_allocate()) {
    reply = Allocate(connection, request.allocate(), &fd);
  } else {
    std::lock_guard lock(mu_);
    const auto found = by_token_.find(request.free().token());
    if (found != by_token_.end()) Drop(found);
  }
  SendPacketWith(connection, behavior_.rubbish ? "\x0f" : reply.SerializeAsString(), fd);
  if (fd >= 0) close(fd);
  return true;
}

softmax::v1::RegionReply FakeRegions::Allocate(int connection, const softmax::v1::AllocateRegion& asked, int* fd) {
  softmax::v1::RegionReply reply;
  reply.mutable_status()->set_code(behavior_.refuse_code);
  if (behavior_.refuse_code != 0) {
    reply.mutable_status()->set_message("not now");
    return reply;
  }
  std::string token(16, 't');
  const int number = ++allocations_;
  std::memcpy(token.data(), &number, sizeof(number));
  Mapping mapping{connection, nullptr, (asked.bytes() + 4095) / 4096 * 4096};
  *fd = memfd_create("region", MFD_CLOEXEC);
  if (ftruncate(*fd, static_cast<off_t>(behavior_.short_files ? 4096 : mapping.bytes)) != 0) return reply;
  mapping.memory = static_cast<std::byte*>(mmap(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0));
  softmax::v1::Region* const region = reply.mutable_region();
  region->set_token(token);
  region->set_bytes(mapping.bytes);
  region->set_memory(asked.memory());
  if (asked.memory() == softmax::v1::REGION_MEMORY_DEVICE) {
    const auto uuid = FakeDeviceUuid(behavior_.device);
    region->set_device(5);
    region->set_device_uuid(std::string(uuid.begin(), uuid.end()));
  }
  std::lock_guard lock(mu_);
  by_token_[token] = mapping;
  return reply;
}

void FakeRegions::End(int connection) {
  close(connection);
  std::lock_guard lock(mu_);
  for (auto mapping = by_token_.begin(); mapping != by_token_.end();) {
    const auto next = std::next(mapping);
    if (mapping->second.connection == connection) Drop(mapping);
    mapping = next;
  }
}

void FakeRegions::Drop(std::map<std::string, Mapping>::iterator mapping) {
  munmap(mapping->second.memory, mapping->second.bytes);
  by_token_.erase(mapping);
}

}  // namespace softmax::client
