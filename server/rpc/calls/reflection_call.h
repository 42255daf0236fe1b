#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include "server/rpc/calls/thread_context.h"
#include "server/rpc/queue/call.h"

namespace softmax::server {

// Server reflection, one question at a time. Our own rather than the library's, because that one brings a thread that
// sleeps in a completion queue (see health_calls.h).
class ReflectionCall final : public Call, public PacedWork {
 public:
  static void Arm(ThreadContext& thread);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;

 private:
  enum class State { kWaiting, kPaced, kReading, kWriting, kFinishing };

  explicit ReflectionCall(ThreadContext& thread) : Call(thread.calls), thread_(thread), stream_(&context_) {}
  void AwaitTurn();
  void Answer();
  void Finish(const grpc::Status& status);

  ThreadContext& thread_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer request_;
  State state_ = State::kWaiting;
  bool authorized_ = false;
};

}  // namespace softmax::server
