#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace softmax {

// A received message as gRPC left it: pieces of any size, cut anywhere. Borrowed.
using Slices = std::span<const std::span<const std::uint8_t>>;

// The `size` bytes that start at `offset` of the whole message, where they are, part by part, without empty parts. The
// range must lie inside.
template <typename Visitor>  // void(const std::uint8_t* data, std::uint64_t size)
void VisitSlices(Slices slices, std::uint64_t offset, std::uint64_t size, Visitor visit) {
  for (const auto& slice : slices) {
    if (size == 0) return;
    if (offset >= slice.size()) {
      offset -= slice.size();
      continue;
    }
    const std::uint64_t step = size < slice.size() - offset ? size : slice.size() - offset;
    visit(slice.data() + offset, step);
    size -= step;
    offset = 0;
  }
}

// Copies the same range to `destination`.
inline void CopyFromSlices(Slices slices, std::uint64_t offset, std::uint64_t size, void* destination) {
  auto* to = static_cast<std::uint8_t*>(destination);
  VisitSlices(slices, offset, size, [&to](const std::uint8_t* data, std::uint64_t step) {
    std::memcpy(to, data, step);
    to += step;
  });
}

}  // namespace softmax
