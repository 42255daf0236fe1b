#pragma once

#include <absl/status/statusor.h>

#include <chrono>

#include "client/softmax_client/client_core.h"

namespace softmax::client {

// GetServerInfo. What it says is remembered by the core.
absl::StatusOr<ServerInfo> AskServer(ClientCore& core, std::chrono::nanoseconds timeout, const RetryOptions& retry);

}  // namespace softmax::client
