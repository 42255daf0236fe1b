#pragma once

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

namespace softmax::server {

// A service with two methods that bring tensors, a unary one for RawCall and a stream, and any number of others, which
// are unary (control_context.h). All messages are raw bytes: a tensor is never parsed into a message. The generated
// classes do not say what the server calls a method by. Names stay where they are.
class TensorService final : public grpc::Service {
 public:
  TensorService(const char* unary, const char* stream) : unary_(Add(unary, grpc::internal::RpcMethod::NORMAL_RPC)) {
    Add(stream, grpc::internal::RpcMethod::BIDI_STREAMING);
  }
  // Before the server is built. The methods are numbered from 0 on.
  void AddControl(const char* name) { Add(name, grpc::internal::RpcMethod::NORMAL_RPC); }

  // For RawCall::Request, once the server has started.
  void* unary() const { return unary_->server_tag(); }
  void RequestStream(grpc::ServerContext* context,
                     grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>* stream,
                     grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(/*index=*/1, context, stream, queue, queue, tag);
  }
  void RequestControl(int method, grpc::ServerContext* context, grpc::ByteBuffer* request,
                      grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer, grpc::ServerCompletionQueue* queue,
                      void* tag) {
    RequestAsyncUnary(/*index=*/2 + method, context, request, writer, queue, queue, tag);
  }

 private:
  grpc::internal::RpcServiceMethod* Add(const char* name, grpc::internal::RpcMethod::RpcType type) {
    auto* const method = new grpc::internal::RpcServiceMethod(name, type, /*handler=*/nullptr);
    AddMethod(method);  // takes it
    MarkMethodRaw(methods_++);
    return method;
  }

  int methods_ = 0;
  grpc::internal::RpcServiceMethod* const unary_;
};

}  // namespace softmax::server
