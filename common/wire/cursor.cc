#include "common/wire/cursor.h"

#include <algorithm>

namespace softmax {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr int kMaxTagBytes = 5;
constexpr int kMaxLengthBytes = 5;
constexpr int kMaxDepth = 100;

enum WireType : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

}  // namespace

bool WireCursor::NextPiece() {
  if (piece_end_offset_ == limit_) return false;
  do {
    slice_offset_ += slices_[index_].size();
    ++index_;
  } while (slices_[index_].empty());
  ptr_ = slices_[index_].data();
  ClipPiece();
  return true;
}

bool WireCursor::ReadByte(std::uint8_t* byte) {
  if (ptr_ == piece_end_ && !NextPiece()) return Fail(WireFault::kTruncated, 0);
  *byte = *ptr_++;
  return true;
}

bool WireCursor::ReadLongVarint(std::uint64_t* value) {
  std::uint64_t result = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    std::uint8_t byte;
    if (!ReadByte(&byte)) return false;
    result |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return Fail(WireFault::kLongVarint, 0);
}

bool WireCursor::ReadLongTag(std::uint32_t* tag) {
  std::uint64_t result = 0;
  for (int i = 0; i < kMaxTagBytes; ++i) {
    std::uint8_t byte;
    if (!ReadByte(&byte)) return false;
    result |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *tag = static_cast<std::uint32_t>(result);
      return *tag >= 8 || Fail(WireFault::kFieldZero, *tag);
    }
  }
  return Fail(WireFault::kLongTag, 0);
}

bool WireCursor::ReadLongLength(std::uint64_t* length) {
  std::uint64_t result = 0;
  for (int i = 0; i < kMaxLengthBytes; ++i) {
    std::uint8_t byte;
    if (!ReadByte(&byte)) return false;
    // The fifth byte holds bits 28 to 34, of which a length below 2 GiB has three.
    if (i == kMaxLengthBytes - 1 && byte >= 8) break;
    result |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *length = result;
      return true;
    }
  }
  return Fail(WireFault::kLongLength, 0);
}

void WireCursor::SkipPieces(std::uint64_t size) {
  while (size > 0) {
    if (ptr_ == piece_end_) NextPiece();
    const auto step = std::min<std::uint64_t>(size, static_cast<std::uint64_t>(piece_end_ - ptr_));
    ptr_ += step;
    size -= step;
  }
}

void WireCursor::Read(std::uint64_t size, void* destination) {
  auto* to = static_cast<std::uint8_t*>(destination);
  while (size > 0) {
    if (ptr_ == piece_end_) NextPiece();
    const auto step = std::min<std::uint64_t>(size, static_cast<std::uint64_t>(piece_end_ - ptr_));
    std::memcpy(to, ptr_, step);
    ptr_ += step;
    to += step;
    size -= step;
  }
}

bool WireCursor::SkipPlain(std::uint32_t tag) {
  std::uint64_t ignored;
  switch (tag & 7) {
    case kVarint:
      return ReadVarint(&ignored);
    case kFixed64:
      return Skip(8);
    case kLengthDelimited:
      return ReadLength(&ignored) && Skip(ignored);
    case kFixed32:
      return Skip(4);
    case kEndGroup:
      return Fail(WireFault::kStrayEndGroup, tag >> 3);
    default:
      return Fail(WireFault::kWireType, tag & 7);
  }
}

bool WireCursor::SkipField(std::uint32_t tag, int depth) {
  return (tag & 7) == kStartGroup ? SkipGroup(tag, depth) : SkipPlain(tag);
}

// A loop with a stack of its own: hostile nesting must not be able to use up the thread's.
bool WireCursor::SkipGroup(std::uint32_t tag, int depth) {
  std::uint32_t open[kMaxDepth];
  depth = std::min(depth, kMaxDepth);
  int count = 0;
  for (;;) {
    if ((tag & 7) == kStartGroup) {
      if (count == depth) return Fail(WireFault::kDeepNesting, static_cast<std::uint64_t>(depth));
      open[count++] = tag >> 3;
    } else if ((tag & 7) == kEndGroup) {
      if (open[--count] != tag >> 3) return Fail(WireFault::kStrayEndGroup, tag >> 3);
      if (count == 0) return true;
    } else if (!SkipPlain(tag)) {
      return false;
    }
    if (AtLimit()) return Fail(WireFault::kOpenGroup, open[count - 1]);
    if (!ReadTag(&tag)) return false;
  }
}

}  // namespace softmax
