#pragma once

namespace softmax::server {

// Sends gRPC's own messages to our log, in its format. gRPC complains in a line of its own about each client that fails
// a handshake, which is for anybody to cause: one line a second is a warning here, the others are for level debug.
// After InitLogging.
void RouteGrpcLog();

}  // namespace softmax::server
