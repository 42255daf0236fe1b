#pragma once

#include <absl/status/status.h>

#include <string_view>

namespace softmax::client {

// What a caller gives for a header (a token, an authority) must be of visible ASCII characters: gRPC ends the process
// over others, and prints them. INVALID_ARGUMENT names the field and the place, and never the text, which may be
// secret.
absl::Status CheckHeaderText(std::string_view field, std::string_view text);

}  // namespace softmax::client
