#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::client {

// The one kind of Stream there is. The queue outlives it.
std::unique_ptr<Stream> MakeStream(const std::string& target, std::shared_ptr<grpc::Channel> channel,
                                   CallbackQueue& queue, const StreamOptions& options, StreamCallback on_answer);

}  // namespace softmax::client
