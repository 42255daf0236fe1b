#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

// Memory that a server shares with processes of its machine (`--regions-socket`). No gRPC and no protobuf type.
namespace softmax::client {

// kDevice: of one of the server's CUDA devices.
enum class Memory : std::uint8_t { kHost = 1, kDevice = 2 };

class RegionMemory;

// A part of that memory, owned. What lies in it does not travel: a request whose input is there, or whose answer is to
// come there, names the place, and the server's kernels read and write it where it is.
//
// Made by Client::AllocateRegion, and known to that client alone. Given back by its destructor, at once or as soon as
// the last call that uses it has ended. The client may go first: the region stays until its own end.
//
// When the server goes, or closes the connection, its regions end: their memory stays mapped here, but what lay there
// may be lost, calls with places in it are NOT_FOUND, and a new region has to be allocated.
//
// Move-only. The memory may be used from any thread; the region itself as any other object.
class Region {
 public:
  Region() = default;  // has no bytes
  explicit Region(std::shared_ptr<RegionMemory> memory) : memory_(std::move(memory)) {}
  Region(Region&&) = default;
  Region& operator=(Region&&) = default;

  // Of device memory: addresses as CUDA has them, which only the GPU can use.
  std::byte* data() const;
  std::size_t size() const;  // at least what was asked for
  std::span<std::byte> bytes() const { return {data(), size()}; }

  // `count` elements from that byte on; empty where they do not all lie inside.
  template <typename T>
  std::span<T> At(std::size_t offset, std::size_t count) const {
    if (offset > size() || count > (size() - offset) / sizeof(T)) return {};
    return {reinterpret_cast<T*>(data() + offset), count};
  }

  Memory memory() const;
  std::uint32_t device() const;  // of ServerInfo::devices; 0 for host memory
  int cuda_device() const;       // the same device's number in this process; -1 for host memory

  // Copies to and from memory of this process, from device regions too, and returns when that is done.
  // INVALID_ARGUMENT: not inside.
  absl::Status Write(std::size_t offset, std::span<const std::byte> from) const;
  absl::Status Read(std::size_t offset, std::span<std::byte> to) const;

 private:
  std::shared_ptr<RegionMemory> memory_;
};

}  // namespace softmax::client
