#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "server/rpc/guard/frame_head.h"

namespace softmax::server {

// Finds in what a server sends on one connection where it ends a call: no more of the client's will be read.
class SentFrames {
 public:
  // Takes bytes of it, in order, up to the next such end or to the last; the call's stream, or nothing at the last.
  std::optional<std::uint32_t> Take(std::string_view* bytes);

 private:
  FrameHeadReader heads_;
  std::uint64_t skip_ = 0;  // bytes until the next frame's head
};

}  // namespace softmax::server
