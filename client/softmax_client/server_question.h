#pragma once

#include <absl/status/statusor.h>

#include "client/softmax_client/client_core.h"

namespace softmax::client {

// GetServerInfo, with the client's deadline and retries. What it says is remembered by the core.
absl::StatusOr<ServerInfo> AskServer(ClientCore& core);

}  // namespace softmax::client
