#pragma once

#include <cstddef>

#include "server/rpc/calls/control_call.h"
#include "server/rpc/oip/infer_group.h"

namespace softmax::server {

// One call of the Open Inference Protocol that brings no tensor.
class InferControlCall final : public ControlCall {
 public:
  // `method`: its place in InferControlMethods.
  static void Arm(InferGroup& group, std::size_t method);
  void TakeTurn(const absl::Status& entry) override;

 private:
  InferControlCall(InferGroup& group, std::size_t method)
      : ControlCall(group.thread().control, [&group, method] { Arm(group, method); }), group_(group), method_(method) {}

  InferGroup& group_;
  const std::size_t method_;
};

}  // namespace softmax::server
