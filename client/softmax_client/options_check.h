#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "client/softmax_client/options.h"
#include "client/softmax_client/target.h"

namespace softmax::client {

// INVALID_ARGUMENT naming the first option out of range, its value and its limit.
absl::Status CheckOptions(const ClientOptions& options, const std::vector<Address>& addresses);

// The same for the timeout of a call, a stream or a batch: zero is no time at all, and not "for ever".
absl::Status CheckTimeout(std::optional<std::chrono::nanoseconds> timeout);

// The same for what streams and batches share.
absl::Status CheckStream(std::size_t max_in_flight, std::size_t max_requests_per_message,
                         std::optional<std::chrono::nanoseconds> timeout);

// What a caller gives for a header (a token, an authority) must be of visible ASCII characters: gRPC ends the process
// over others, and prints them. INVALID_ARGUMENT names the field and the place, and never the text, which may be
// secret.
absl::Status CheckHeaderText(std::string_view field, std::string_view text);

}  // namespace softmax::client
