#pragma once

#include <absl/status/status.h>

#include <string>

#include "client/softmax_client/wire.h"

// The Open Inference Protocol's ModelInferRequest and ModelInferResponse, by hand, in the terms of the native contract:
// with one tensor, its bytes raw. No gRPC here.
namespace softmax::client {

inline constexpr char kModelInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";

// Appends everything of a serialized ModelInferRequest but the tensor's bytes, which must follow directly. The id is
// the number in decimal. The lengths and the timeout of `fields` have no place in it.
void AppendInferRequestHeader(const RequestFields& fields, std::string* out);

// Any server's answer: the first output's type and shape, and the first raw contents. Not OK: the bytes cannot be
// decoded. `has_output` is false where an answer has no raw contents.
absl::Status DecodeInferResponse(Pieces pieces, ResponseFields* out);

}  // namespace softmax::client
