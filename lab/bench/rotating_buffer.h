#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace softmax::bench {

// Memory that copies go round in, so that they land where a server's batches would: neither always in the cache nor in
// pages never touched before. One per thread; the threads' buffers together are what "a rotating buffer" means.
class RotatingBuffer {
 public:
  // `bytes` > 0. Every page is touched here, not by the first copies.
  explicit RotatingBuffer(std::size_t bytes) : size_(bytes), memory_(new std::byte[bytes]()) {}

  // Copies `source` behind the last copy, going on at the beginning where the end is reached.
  void Copy(std::span<const std::uint8_t> source) {
    while (!source.empty()) {
      const std::size_t part = std::min(source.size(), size_ - at_);
      std::memcpy(memory_.get() + at_, source.data(), part);
      at_ = (at_ + part) % size_;
      source = source.subspan(part);
    }
  }

  const std::byte* data() const { return memory_.get(); }
  // Where the next copy begins.
  std::size_t at() const { return at_; }

 private:
  const std::size_t size_;
  const std::unique_ptr<std::byte[]> memory_;
  std::size_t at_ = 0;
};

}  // namespace softmax::bench
