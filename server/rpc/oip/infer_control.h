#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <span>
#include <string>

#include "server/rpc/health/health.h"
#include "server/rpc/oip/model_statistics.h"
#include "server/rpc/oip/shared_files.h"

namespace softmax::server {

// What they are made from.
struct InferControlSources {
  const Health& health;
  const ModelStatistics& statistics;
  std::string version;  // the server's
  SharedFiles* files;   // null: no shared memory is served
};

// A method of the Open Inference Protocol that brings no tensor.
struct InferControlMethod {
  // Reads the request into a message of its type.
  using ReadRequest = absl::FunctionRef<absl::Status(google::protobuf::MessageLite* request)>;

  const char* name;  // "/inference.GRPCInferenceService/ServerLive"
  absl::StatusOr<grpc::ByteBuffer> (*answer)(const InferControlSources& sources, ReadRequest read);
};
std::span<const InferControlMethod> InferControlMethods();

}  // namespace softmax::server
