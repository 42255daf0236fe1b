#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/wire/decode.h"
#include "common/wire/slices.h"

// What is said of a message as a whole, whatever it is, and how.
namespace softmax {

// A caller's text for a refusal: in quotes, and no longer than a reader needs.
std::string Quoted(std::string_view text);

// INVALID_ARGUMENT with these words behind each other.
template <typename... Args>
[[gnu::cold]] absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// RESOURCE_EXHAUSTED: a good request, in a message with much beside it.
absl::Status CheckMessage(std::uint64_t bytes, const WireLimits& limits);

// INTERNAL, for what is beyond WireLimits::max_steps.
absl::Status OutOfSteps();

// How every refusal of a compressed message ends: which side has to change.
constexpr char kOnlyIdentity[] = "only identity is accepted: the client must send its messages uncompressed";

// What to say of a message that was refused for `status`: the reason, unless it is compressed.
[[gnu::cold]] absl::Status OrCompressed(Slices slices, absl::Status status);

}  // namespace softmax
