#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/wire/decode.h"
#include "tests/common/wire/sliced_message.h"

namespace softmax::testing {

// What the fuzzer gives to a target that reads messages in slices:
//   byte 0      flags of the target; bits 4 to 7: the number of slice sizes that follow
//   then        one byte per slice size
//   the rest    the message; what the sizes do not cover is one more slice
// Every slice is an allocation of its own, so that AddressSanitizer sees any read outside. `size` is above 0.
struct SlicedInput {
  SlicedInput(const std::uint8_t* data, std::size_t size)
      : flags(data[0]),
        count(std::min<std::size_t>(flags >> 4, size - 1)),
        bytes(reinterpret_cast<const char*>(data) + 1 + count, size - 1 - count),
        cut(bytes, std::vector<std::size_t>(data + 1, data + 1 + count)),
        whole(bytes) {}

  const std::uint8_t flags;
  const std::size_t count;
  const std::string_view bytes;  // of the message
  const SlicedMessage cut;
  const SlicedMessage whole;
};

// `tight`: so low that many messages pass them.
inline WireLimits FuzzedLimits(bool tight) {
  WireLimits limits;
  if (!tight) return limits;
  limits.max_request_bytes = 200;
  limits.max_response_bytes = 300;
  limits.max_rank = 3;
  limits.max_rows = 10;
  limits.max_columns = 10;
  limits.max_top_k = 7;
  limits.max_requests_per_stream_message = 3;
  limits.max_tensor_bytes = 250;
  return limits;
}

}  // namespace softmax::testing
