#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace softmax::server {

// gRPC 1.51 looks at a message's size when it has it whole. So of a message that claims more than its method takes, the
// guard lets gRPC have these bytes in place of the first, and says that there are no more: the method sees what was
// claimed, and refuses it with a status. No message of any method begins like this (there is no wire type 7).
inline constexpr std::size_t kCutMessageBytes = 12;
std::array<char, kCutMessageBytes> CutMessage(std::uint32_t claimed_bytes);

// What a cut message claimed to have; nothing: it is another message. In pieces, cut anywhere.
std::optional<std::uint32_t> ClaimOfCut(std::span<const std::span<const std::uint8_t>> message);

}  // namespace softmax::server
