#pragma once

#include "server/rpc/calls/unary_call.h"
#include "server/rpc/oip/infer_group.h"
#include "server/rpc/oip/inference.h"

namespace softmax::server {

// One ModelInfer call. Lives on its queue thread.
class InferCall final : public UnaryCall, private Inference::Owner {
 public:
  // Offers the server one more call to match.
  static void Arm(InferGroup& group);

 private:
  explicit InferCall(InferGroup& group)
      : UnaryCall(group.thread(), Method::kModelInfer), group_(group), inference_(this) {}

  void Rearm() override { Arm(group_); }
  absl::Status Decode(const WireLimits& limits) override {
    return FrontDoor::Decode(call().message(), limits, &inference_.request());
  }
  absl::Status FindPlaces() override { return inference_.FindFiles(group_.files()); }
  bool is_beyond_budget() const override { return inference_.request().beyond_budget; }
  void Submit(TimePoint arrived, TimePoint deadline) override {
    inference_.Submit(thread().admission(), share(), CallKind::kUnary, arrived, deadline);
  }
  std::uint64_t log_id() const override { return inference_.log_id(); }
  void OnCounted(const RequestSample& sample, const Answer* answer) override;

  MessageView Message() const override { return MessageView(call().message()); }
  void InputTaken() override { call().ClearMessage(); }
  bool CallerLeft() const override { return caller_left(); }
  SlicedWork& slices() override { return thread().slices; }
  const Connection* connection_of() const override { return connection(); }
  Cork* Announce(std::uint64_t bytes) override;
  void Completed(const Answer& answer) override;

  InferGroup& group_;
  Inference inference_;
};

}  // namespace softmax::server
