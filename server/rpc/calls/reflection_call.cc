#include "server/rpc/calls/reflection_call.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <set>

#include "common/base/safe_text.h"
#include "server/rpc/calls/control_context.h"
#include "server/rpc/queue/call.h"
#include "server/rpc/queue/status.h"

namespace softmax::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

constexpr const char* kServices[] = {"softmax.v1.SoftmaxService", "inference.GRPCInferenceService",
                                     "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"};

void Refuse(grpc::StatusCode code, const std::string& message, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(code);
  response->mutable_error_response()->set_error_message(message);
}

// The file and what it imports, each once.
void AddFile(const FileDescriptor* file, std::set<const FileDescriptor*>* seen, ServerReflectionResponse* response) {
  if (!seen->insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFile(file->dependency(i), seen, response);
}

void AnswerFile(const FileDescriptor* file, const std::string& name, ServerReflectionResponse* response) {
  if (file == nullptr) {
    return Refuse(grpc::StatusCode::NOT_FOUND,
                  absl::StrCat("\"", SafeText(name, TextFor::kPeople, kExcerptBytes), "\" is not known here"),
                  response);
  }
  std::set<const FileDescriptor*> seen;
  AddFile(file, &seen, response);
}

ServerReflectionResponse AnswerTo(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const DescriptorPool* const pool = DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const char* service : kServices) response.mutable_list_services_response()->add_service()->set_name(service);
      break;
    case ServerReflectionRequest::kFileByFilename:
      AnswerFile(pool->FindFileByName(request.file_by_filename()), request.file_by_filename(), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      AnswerFile(pool->FindFileContainingSymbol(request.file_containing_symbol()), request.file_containing_symbol(),
                 &response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      Refuse(grpc::StatusCode::NOT_FOUND, "there are no extensions", &response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      Refuse(grpc::StatusCode::INVALID_ARGUMENT, "message_request: nothing is asked", &response);
      break;
  }
  return response;
}

// Server reflection, one question at a time. Our own rather than the library's, because that one brings a thread that
// sleeps in a completion queue (ControlContext).
class ReflectionCall final : public Call, public PacedWork {
 public:
  static void Arm(ThreadContext& thread);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;

 private:
  enum class State { kWaiting, kPaced, kReading, kWriting, kFinishing };

  explicit ReflectionCall(ThreadContext& thread) : Call(thread.calls), thread_(thread), stream_(&context_) {}
  void AwaitTurn();
  void Answer();
  void Finish(const grpc::Status& status);

  ThreadContext& thread_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer request_;
  State state_ = State::kWaiting;
  bool authorized_ = false;
};

void ReflectionCall::Arm(ThreadContext& thread) {
  auto* call = new ReflectionCall(thread);
  thread.reflection.RequestServerReflectionInfo(&call->context_, &call->stream_, thread.queue(), thread.queue(),
                                                static_cast<Tag*>(call));
}

void ReflectionCall::Proceed(bool ok) {
  switch (state_) {
    case State::kWaiting:
      if (!ok) break;
      thread_.control.pace.Offer([&thread = thread_] { Arm(thread); });
      AwaitTurn();
      return;
    case State::kPaced:
      return;  // nothing is under way
    case State::kReading:
      if (ok) return Answer();
      Finish(grpc::Status::OK);  // the client has no more questions
      return;
    case State::kWriting:
      if (!ok) {
        Finish(grpc::Status::OK);  // nobody reads it
        return;
      }
      if (const auto connection = thread_.door.ConnectionOf(context_.peer())) connection->account().RequestAnswered();
      AwaitTurn();
      return;
    case State::kFinishing:
      thread_.control.CallFinished(context_.peer());
      break;
  }
  Free();
}

// For each question.
void ReflectionCall::AwaitTurn() {
  state_ = State::kPaced;
  thread_.control.WaitForTurn(context_.peer(), this);
}

void ReflectionCall::TakeTurn(const absl::Status& entry) {
  absl::Status status = entry;
  if (status.ok() && !authorized_) status = thread_.door.Authorize(context_);
  if (!status.ok()) return Finish(ToGrpcStatus(status));
  authorized_ = true;
  state_ = State::kReading;
  stream_.Read(&request_, static_cast<Tag*>(this));
}

void ReflectionCall::Answer() {
  ServerReflectionRequest request;
  if (const absl::Status status = thread_.control.Parse(request_, context_.peer(), &request); !status.ok()) {
    return Finish(ToGrpcStatus(status));
  }
  state_ = State::kWriting;
  stream_.Write(SerializeControl(AnswerTo(request)), static_cast<Tag*>(this));
}

void ReflectionCall::Finish(const grpc::Status& status) {
  state_ = State::kFinishing;
  stream_.Finish(status, static_cast<Tag*>(this));
}

}  // namespace

void ArmReflection(ThreadContext& thread) { ReflectionCall::Arm(thread); }

}  // namespace softmax::server
