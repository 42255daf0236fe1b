#pragma once

namespace softmax::server {

// The methods whose messages bring tensors. A message of any other takes a few bytes (calls/control_context.h).
inline constexpr char kSoftmaxMethod[] = "/softmax.v1.SoftmaxService/Softmax";
inline constexpr char kSoftmaxStreamMethod[] = "/softmax.v1.SoftmaxService/SoftmaxStream";
inline constexpr char kModelInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";
inline constexpr char kModelStreamInferMethod[] = "/inference.GRPCInferenceService/ModelStreamInfer";

}  // namespace softmax::server
