#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "server/execution/faults.h"

namespace softmax::server {

// Reads --fault: a list with commas of what server/execution/faults.h names, or "none". INVALID_ARGUMENT names the item
// that is wrong.
absl::StatusOr<Faults> ParseFaults(const std::string& text);

}  // namespace softmax::server
