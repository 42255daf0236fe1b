#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

namespace softmax::server {

// gRPC 1.51 hands a compressed message over as identity when grpc-encoding names nothing that it knows, or nothing at
// all. Marks the call's last message as compressed in an unknown way if its sender says that it is compressed.
void MarkIfCompressed(grpc_call* call, grpc_byte_buffer* message);

}  // namespace softmax::server
