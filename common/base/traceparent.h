#pragma once

#include <string_view>

namespace softmax {

// The parts of a traceparent: version-trace_id-parent_id-flags, as 00-<32 hex digits>-<16 hex digits>-<2 hex digits>.
inline constexpr std::size_t kTraceparentLength = 55;
inline constexpr std::size_t kTraceIdAt = 3;
inline constexpr std::size_t kTraceIdLength = 32;
inline constexpr std::size_t kParentIdAt = 36;
inline constexpr std::size_t kParentIdLength = 16;

// A traceparent by W3C's rules: the four parts of 55 characters that every version begins with, in lower case. Empty
// when it is not valid (a version ff, a trace or parent id of zeros).
std::string_view CheckedTraceparent(std::string_view value);

}  // namespace softmax
