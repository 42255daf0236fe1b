#pragma once

#include <optional>

#include "client/softmax_client/options.h"
#include "client/softmax_client/wire.h"

namespace softmax::client {

// Reads a serialized GetServerInfoResponse. By hand, so that programs with generated code of the contract of their own
// can link the library: protobuf allows a message one definition. Nothing: the bytes cannot be decoded.
std::optional<ServerInfo> DecodeServerInfo(Pieces message);

}  // namespace softmax::client
