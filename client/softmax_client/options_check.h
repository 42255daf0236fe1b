#pragma once

#include <absl/status/status.h>

#include <vector>

#include "client/softmax_client/options.h"
#include "client/softmax_client/target.h"

namespace softmax::client {

// INVALID_ARGUMENT naming the first option out of range, its value and its limit.
absl::Status CheckOptions(const ClientOptions& options, const std::vector<Address>& addresses);

}  // namespace softmax::client
