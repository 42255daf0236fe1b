#pragma once

#include <absl/status/status.h>

#include <string>

#include "client/softmax_client/wire.h"

// The Open Inference Protocol's ModelInferRequest and ModelInferResponse, in the terms of the native contract:
// with one tensor, its bytes raw, or the summary's parts as further outputs. No gRPC here.
namespace softmax::client {

inline constexpr char kModelInferMethod[] = "/inference.GRPCInferenceService/ModelInfer";

// Appends everything of a serialized ModelInferRequest but the tensor's bytes, which must follow directly. The id is
// the number in decimal. The lengths, the timeout and the summary's indices of `fields` have no place in it.
void AppendInferRequestHeader(const RequestFields& fields, std::string* out);

// Any server's answer: the further outputs by their names, and of the others the first. Not OK: the bytes cannot be
// decoded, or a further output's bytes are not those of its type and shape. What has no raw contents is not there.
absl::Status DecodeInferResponse(Pieces pieces, ResponseFields* out);

}  // namespace softmax::client
