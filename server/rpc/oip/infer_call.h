#pragma once

#include "server/rpc/calls/unary_call.h"
#include "server/rpc/oip/inference.h"

namespace softmax::server {

// One ModelInfer call. Lives on its queue thread.
class InferCall final : public UnaryCall, private Inference::Owner {
 public:
  // Offers the server one more call to match.
  static void Arm(QueueThread& thread);

 private:
  explicit InferCall(QueueThread& thread) : UnaryCall(thread, Method::kModelInfer), inference_(this) {}

  void Rearm() override { Arm(thread()); }
  absl::Status Decode() override { return thread().door().Decode(call().message(), &inference_.request()); }
  void Submit(TimePoint arrived, TimePoint deadline) override {
    inference_.Submit(thread().admission(), share(), CallKind::kUnary, arrived, deadline);
  }
  std::uint64_t log_id() const override { return inference_.log_id(); }
  void OnCounted(const RequestSample& sample, const Answer* answer) override;

  MessageView Message() const override { return MessageView(call().message()); }
  void InputTaken() override { call().ClearMessage(); }
  bool CallerLeft() const override { return caller_left(); }
  Cork* Announce(std::uint64_t bytes) override;
  void Completed(const Answer& answer) override;

  Inference inference_;
};

}  // namespace softmax::server
