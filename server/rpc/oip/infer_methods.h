#pragma once

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>

#include "server/rpc/guard/tensor_methods.h"

namespace softmax::server {

// GRPCInferenceService's methods, as SoftmaxMethods has those of its service: ModelInfer for RawCall, the others as raw
// bytes.
class InferMethods final : public grpc::Service {
 public:
  static constexpr std::size_t kControlMethods = 18;
  // Those that bring no tensor, in the order of the answers in infer_control_call.cc.
  static constexpr std::array<const char*, kControlMethods> kControlNames = {
      "/inference.GRPCInferenceService/ServerLive",
      "/inference.GRPCInferenceService/ServerReady",
      "/inference.GRPCInferenceService/ModelReady",
      "/inference.GRPCInferenceService/ServerMetadata",
      "/inference.GRPCInferenceService/ModelMetadata",
      "/inference.GRPCInferenceService/ModelConfig",
      "/inference.GRPCInferenceService/ModelStatistics",
      "/inference.GRPCInferenceService/RepositoryIndex",
      "/inference.GRPCInferenceService/RepositoryModelLoad",
      "/inference.GRPCInferenceService/RepositoryModelUnload",
      "/inference.GRPCInferenceService/SystemSharedMemoryStatus",
      "/inference.GRPCInferenceService/SystemSharedMemoryRegister",
      "/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
      "/inference.GRPCInferenceService/CudaSharedMemoryStatus",
      "/inference.GRPCInferenceService/CudaSharedMemoryRegister",
      "/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
      "/inference.GRPCInferenceService/TraceSetting",
      "/inference.GRPCInferenceService/LogSettings",
  };

  InferMethods() {
    using grpc::internal::RpcMethod;
    infer_ = Add(kModelInferMethod, RpcMethod::NORMAL_RPC);
    Add(kModelStreamInferMethod, RpcMethod::BIDI_STREAMING);
    for (const char* name : kControlNames) Add(name, RpcMethod::NORMAL_RPC);
    for (std::size_t i = 0; i < kFirstControl + kControlMethods; ++i) MarkMethodRaw(static_cast<int>(i));
  }

  // For RawCall::Request, once the server has started.
  void* infer() const { return infer_->server_tag(); }

  void RequestModelStreamInfer(grpc::ServerContext* context,
                               grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
                               grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(kStream, context, stream, queue, queue, tag);
  }

  // `method`: its place in kControlNames.
  void RequestControl(std::size_t method, grpc::ServerContext* context, grpc::ByteBuffer* request,
                      grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer, grpc::ServerCompletionQueue* queue,
                      void* tag) {
    RequestAsyncUnary(static_cast<int>(kFirstControl + method), context, request, writer, queue, queue, tag);
  }

 private:
  static constexpr int kStream = 1;
  static constexpr std::size_t kFirstControl = 2;

  // `name` stays where it is.
  grpc::internal::RpcServiceMethod* Add(const char* name, grpc::internal::RpcMethod::RpcType type) {
    auto* const method = new grpc::internal::RpcServiceMethod(name, type, /*handler=*/nullptr);
    AddMethod(method);  // takes it
    return method;
  }

  grpc::internal::RpcServiceMethod* infer_ = nullptr;
};

}  // namespace softmax::server
