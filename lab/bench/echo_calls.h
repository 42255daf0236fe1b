#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server.h>

#include "lab/bench/rotating_buffer.h"
#include "server/rpc/calls/tensor_service.h"
#include "softmax/v1/softmax.grpc.pb.h"

namespace softmax::bench {

// Softmax and SoftmaxStream as raw bytes, as one would write it with gRPC's C++ interface.
using AsyncService = v1::SoftmaxService::WithRawMethod_Softmax<v1::SoftmaxService::WithRawMethod_SoftmaxStream<
    v1::SoftmaxService::WithAsyncMethod_GetServerInfo<v1::SoftmaxService::Service>>>;

// One completion queue of the echo server, with its one thread.
struct EchoQueue {
  // One of both: unary calls by gRPC's C++ interface, or by its C interface, as the service has them.
  AsyncService* service = nullptr;
  server::TensorService* methods = nullptr;
  grpc::Server* server = nullptr;
  grpc::ServerCompletionQueue* queue = nullptr;
  // Null: messages go back as they came. Otherwise each is also copied here once, as a batch would take it.
  RotatingBuffer* copy = nullptr;
  // Not 0: unary calls are answered with this number of bytes instead. Streams go back as they came.
  std::size_t answer_bytes = 0;
};

// Offers the server one more call to match, unary or a stream. A call deletes itself at its end; `queue` outlives it.
void ArmUnaryEcho(const EchoQueue& queue);
void ArmStreamEcho(const EchoQueue& queue);

}  // namespace softmax::bench
