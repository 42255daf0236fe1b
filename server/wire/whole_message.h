#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "server/wire/slices.h"
#include "server/wire/wire.h"

// What is said of a message as a whole, whatever it is.
namespace softmax::server {

// RESOURCE_EXHAUSTED: a good request, in a message with much beside it.
absl::Status CheckMessage(std::uint64_t bytes, const WireLimits& limits);

// INTERNAL, for what is beyond WireLimits::max_steps.
absl::Status OutOfSteps();

// What to say of a message that was refused for `status`: the reason, unless it is compressed.
[[gnu::cold]] absl::Status OrCompressed(Slices slices, absl::Status status);

}  // namespace softmax::server
