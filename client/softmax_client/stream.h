#pragma once

#include <memory>
#include <span>
#include <vector>

#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/client_core.h"
#include "client/softmax_client/connection_pool.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::client {

// The one kind of Stream there is. The core and the queue outlive it.
absl::StatusOr<std::unique_ptr<Stream>> MakeStream(ClientCore& core, const Connection& connection, CallbackQueue& queue,
                                                   const StreamOptions& options, StreamCallback on_answer);

// Client::SoftmaxBatch: over streams, one after the other.
std::vector<absl::StatusOr<Tensor>> RunBatch(ClientCore& core, CallbackQueue& queue, std::span<const BatchItem> items,
                                             const BatchOptions& options);

}  // namespace softmax::client
