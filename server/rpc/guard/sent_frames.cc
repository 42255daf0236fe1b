#include "server/rpc/guard/sent_frames.h"

#include <algorithm>

namespace softmax::server {

std::optional<std::uint32_t> SentFrames::Take(std::string_view* bytes) {
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

}  // namespace softmax::server
