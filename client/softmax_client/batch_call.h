#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <vector>

#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/client_core.h"

namespace softmax::client {

// Client::SoftmaxBatch.
std::vector<absl::StatusOr<Tensor>> RunBatch(ClientCore& core, CallbackQueue& queue, std::span<const BatchItem> items,
                                             const BatchOptions& options);

}  // namespace softmax::client
