#include "common/base/traceparent.h"

namespace softmax {

std::string_view CheckedTraceparent(std::string_view value) {
  if (value.size() < kTraceparentLength) return {};
  const std::string_view text = value.substr(0, kTraceparentLength);
  for (std::size_t i = 0; i < kTraceparentLength; ++i) {
    const bool dash = i == 2 || i == 35 || i == 52;
    const char c = text[i];
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (dash ? c != '-' : !digit) return {};
  }
  const std::string_view version = text.substr(0, 2);
  const bool has_more = value.size() > kTraceparentLength;
  if (version == "ff" || (has_more && (version == "00" || value[kTraceparentLength] != '-'))) return {};
  const auto all_zeros = [&](std::size_t at, std::size_t length) {
    return text.substr(at, length).find_first_not_of('0') == std::string_view::npos;
  };
  if (all_zeros(kTraceIdAt, kTraceIdLength) || all_zeros(kParentIdAt, kParentIdLength)) return {};
  return text;
}

}  // namespace softmax
