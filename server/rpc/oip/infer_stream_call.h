#pragma once

#include <memory>

#include "server/rpc/calls/stream_call.h"

namespace softmax::server {

// One ModelStreamInfer call: a request in each message, and an answer in each.
class InferStreamCall final : public StreamCall {
 public:
  static void Arm(QueueThread& thread);

 private:
  class Request;

  explicit InferStreamCall(QueueThread& thread) : StreamCall(thread, /*joins=*/false) {}

  void Rearm() override { Arm(thread_); }
  void HandleMessage(const std::shared_ptr<Message>& message) override;
  void Completed(Request* request, const Answer& answer);
};

}  // namespace softmax::server
