#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "client/softmax_client/options.h"

namespace softmax::client {

// Reads a serialized GetServerInfoResponse. Nothing: it is not one.
std::optional<ServerInfo> DecodeServerInfo(const grpc::ByteBuffer& message);

}  // namespace softmax::client
