// The transport's ceiling: a bare echo of the same bytes, on raw completion queues, with the service's own process and
// channel settings. A SoftmaxRequest of an id and an input, sent back as it came, is a well-formed SoftmaxResponse.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <thread>
#include <vector>

#include "server/base/process_settings.h"
#include "server/rpc/channel_settings.h"
#include "server/rpc/service_state.h"

namespace {

using softmax::server::AsyncService;

class EchoCall {
 public:
  EchoCall(AsyncService* service, grpc::ServerCompletionQueue* queue)
      : service_(service), queue_(queue), responder_(&context_) {
    service_->RequestSoftmax(&context_, &message_, &responder_, queue_, queue_, this);
  }
  void Proceed(bool ok) {
    if (answered_ || !ok) {
      delete this;
      return;
    }
    new EchoCall(service_, queue_);
    answered_ = true;
    if (!message_.Valid()) {
      responder_.FinishWithError(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"), this);
      return;
    }
    responder_.Finish(message_, grpc::Status::OK, this);
  }

 private:
  AsyncService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  grpc::ByteBuffer message_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  bool answered_ = false;
};

void Serve(grpc::ServerCompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<EchoCall*>(tag)->Proceed(ok);
}

}  // namespace

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  CLI::App app("Echoes SoftmaxService.Softmax messages: what the transport alone can do");
  std::vector<std::string> addresses = {"127.0.0.1:50061"};
  unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u);
  app.add_option("--address", addresses, "host:port or unix:/path, repeatable");
  app.add_option("--threads", threads, "completion queues, one thread each")->check(CLI::Range(1, 64));
  CLI11_PARSE(app, argc, argv);

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  AsyncService service;
  grpc::ServerBuilder builder;
  softmax::server::ApplyServerSettings({}, &builder);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (const std::string& address : addresses) {
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  }
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (unsigned i = 0; i < threads; ++i) queues.push_back(builder.AddCompletionQueue());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::cerr << "cannot listen on " << addresses.front() << "\n";
    return 3;
  }
  std::vector<std::thread> workers;
  for (auto& queue : queues) {
    for (int i = 0; i < 64; ++i) new EchoCall(&service, queue.get());
    workers.emplace_back([&queue] { Serve(queue.get()); });
  }
  std::cout << "listening on " << addresses.front() << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  for (auto& queue : queues) queue->Shutdown();
  for (std::thread& worker : workers) worker.join();
  return 0;
}
