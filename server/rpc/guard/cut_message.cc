#include "server/rpc/guard/cut_message.h"

#include <algorithm>
#include <string_view>

namespace softmax::server {
namespace {

constexpr std::string_view kMark =
    "\x0f\xff\xff\xff"
    "cut:";
static_assert(kMark.size() + sizeof(std::uint32_t) == kCutMessageBytes);

}  // namespace

std::array<char, kCutMessageBytes> CutMessage(std::uint32_t claimed_bytes) {
  std::array<char, kCutMessageBytes> message{};
  auto* at = std::copy(kMark.begin(), kMark.end(), message.begin());
  for (const int shift : {24, 16, 8, 0}) *at++ = static_cast<char>(claimed_bytes >> shift);
  return message;
}

std::optional<std::uint32_t> ClaimOfCut(std::span<const std::span<const std::uint8_t>> message) {
  std::size_t at = 0;
  std::uint32_t claimed = 0;
  for (const std::span<const std::uint8_t> piece : message) {
    for (const std::uint8_t byte : piece) {
      if (at == kCutMessageBytes) return std::nullopt;
      if (at < kMark.size() && byte != static_cast<std::uint8_t>(kMark[at])) return std::nullopt;
      if (at >= kMark.size()) claimed = claimed << 8 | byte;
      ++at;
    }
  }
  return at == kCutMessageBytes ? std::optional(claimed) : std::nullopt;
}

}  // namespace softmax::server
