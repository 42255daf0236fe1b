#include "tests/client/loadgen/send/stall_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "tests/support/eventually.h"

namespace softmax::client {
namespace {

// One call: requested, read, answered, gone.
class EchoCall {
 public:
  EchoCall(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue), stream_(&context_) {
    service_->RequestCall(&context_, &stream_, queue_, queue_, this);
  }

  void Proceed(bool ok) {
    if (!ok || step_ == 2) {
      delete this;
      return;
    }
    if (step_++ == 0) {
      new EchoCall(service_, queue_);
      stream_.Read(&message_, this);
    } else {
      stream_.WriteAndFinish(message_, grpc::WriteOptions(), grpc::Status::OK, this);
    }
  }

 private:
  grpc::AsyncGenericService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer message_;
  int step_ = 0;
};

}  // namespace

StallServer::StallServer(std::chrono::milliseconds period, std::chrono::milliseconds stall)
    : period_(period), stall_(stall) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
  thread_ = std::thread([this] { Run(); });
}

StallServer::~StallServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

void StallServer::Run() {
  for (int i = 0; i < 64; ++i) new EchoCall(&service_, queue_.get());
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (ok) StallWhenDue();
    static_cast<EchoCall*>(tag)->Proceed(ok);
  }
}

void StallServer::StallWhenDue() const {
  const auto since = std::chrono::steady_clock::now() - begin_;
  const auto into = since % period_;
  if (into >= period_ - stall_) testing::LetPass(period_ - into);
}

}  // namespace softmax::client
