#pragma once

#include <grpcpp/completion_queue.h>

#include "server/rpc/queue_server.h"
#include "tests/bench/rotating_buffer.h"

namespace softmax::bench {

// One completion queue of the echo server, with its one thread.
struct EchoQueue {
  server::AsyncService* service = nullptr;
  grpc::ServerCompletionQueue* queue = nullptr;
  // Null: messages go back as they came. Otherwise each is also copied here once, as a batch would take it.
  RotatingBuffer* copy = nullptr;
};

// Offers the server one more call to match, unary or a stream. A call deletes itself at its end; `queue` outlives it.
void ArmUnaryEcho(const EchoQueue& queue);
void ArmStreamEcho(const EchoQueue& queue);

}  // namespace softmax::bench
