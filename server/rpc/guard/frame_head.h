#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace softmax::server {

// What stands before each HTTP/2 frame's payload (RFC 9113, section 4.1).
struct FrameHead {
  static constexpr std::size_t kBytes = 9;

  enum Type : std::uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kContinuation = 9 };
  enum Flag : std::uint8_t { kEndStream = 0x1, kAck = 0x1, kEndHeaders = 0x4, kPadded = 0x8, kPriority = 0x20 };

  std::uint32_t length = 0;
  std::uint8_t type = kData;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
};

// Puts heads together that arrive in pieces.
class FrameHeadReader {
 public:
  // Takes bytes from the front of `bytes`, a span or view of chars. Whether `head` is one by now.
  template <typename Bytes>
  bool Take(Bytes* bytes, FrameHead* head) {
    if (had_ == 0 && bytes->size() >= FrameHead::kBytes) {  // as most do
      Read(bytes->data(), head);
      *bytes = Bytes(bytes->data() + FrameHead::kBytes, bytes->size() - FrameHead::kBytes);
      return true;
    }
    const std::size_t taken = std::min(FrameHead::kBytes - had_, bytes->size());
    std::copy_n(bytes->data(), taken, head_.data() + had_);
    had_ += taken;
    *bytes = Bytes(bytes->data() + taken, bytes->size() - taken);
    if (had_ < FrameHead::kBytes) return false;
    had_ = 0;
    Read(head_.data(), head);
    return true;
  }

 private:
  static void Read(const char* bytes, FrameHead* head) {
    const auto byte = [bytes](int i) { return std::uint32_t{static_cast<std::uint8_t>(bytes[i])}; };
    head->length = byte(0) << 16 | byte(1) << 8 | byte(2);
    head->type = static_cast<std::uint8_t>(bytes[3]);
    head->flags = static_cast<std::uint8_t>(bytes[4]);
    head->stream = (byte(5) & 0x7fu) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
  }

  std::array<char, FrameHead::kBytes> head_{};
  std::size_t had_ = 0;  // bytes of it
};

// Finds in what a server sends on one connection where it ends a call: no more of the client's will be read.
class SentFrames {
 public:
  // Takes bytes of it, in order, up to the next such end or to the last; the call's stream, or nothing at the last.
  std::optional<std::uint32_t> Take(std::string_view* bytes) {
    while (!bytes->empty()) {
      const std::size_t skipped = std::min<std::uint64_t>(skip_, bytes->size());
      skip_ -= skipped;
      bytes->remove_prefix(skipped);
      FrameHead head;
      if (!heads_.Take(bytes, &head)) return std::nullopt;
      skip_ = head.length;
      const bool ends = (head.type == FrameHead::kHeaders || head.type == FrameHead::kData) &&
                        (head.flags & FrameHead::kEndStream) != 0;
      if (ends || head.type == FrameHead::kReset) return head.stream;
    }
    return std::nullopt;
  }

 private:
  FrameHeadReader heads_;
  std::uint64_t skip_ = 0;  // bytes until the next frame's head
};

}  // namespace softmax::server
