#pragma once

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include "server/rpc/guard/tensor_methods.h"
#include "softmax/v1/softmax.grpc.pb.h"

namespace softmax::server {

// SoftmaxService's methods: Softmax for RawCall, SoftmaxStream as raw bytes (a tensor is never parsed into a message),
// GetServerInfo likewise (control_message.h). The generated class does not say what the server calls a method by.
class SoftmaxMethods final : public grpc::Service {
 public:
  SoftmaxMethods() {
    using grpc::internal::RpcMethod;
    softmax_ = Add(kSoftmaxMethod, RpcMethod::NORMAL_RPC);
    Add(kSoftmaxStreamMethod, RpcMethod::BIDI_STREAMING);
    Add("/softmax.v1.SoftmaxService/GetServerInfo", RpcMethod::NORMAL_RPC);
    MarkMethodRaw(0);
    MarkMethodRaw(kStream);
    MarkMethodRaw(kInfo);
  }

  // For RawCall::Request, once the server has started.
  void* softmax() const { return softmax_->server_tag(); }

  void RequestSoftmaxStream(grpc::ServerContext* context,
                            grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
                            grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(kStream, context, stream, queue, queue, tag);
  }

  void RequestGetServerInfo(grpc::ServerContext* context, grpc::ByteBuffer* request,
                            grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer,
                            grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncUnary(kInfo, context, request, writer, queue, queue, tag);
  }

 private:
  static constexpr int kStream = 1;
  static constexpr int kInfo = 2;

  // `name` stays where it is.
  grpc::internal::RpcServiceMethod* Add(const char* name, grpc::internal::RpcMethod::RpcType type) {
    auto* const method = new grpc::internal::RpcServiceMethod(name, type, /*handler=*/nullptr);
    AddMethod(method);  // takes it
    return method;
  }

  grpc::internal::RpcServiceMethod* softmax_ = nullptr;
};

}  // namespace softmax::server
