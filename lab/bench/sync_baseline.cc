// What a user would write without this project: gRPC's synchronous API, generated messages, and one copy, kernel, copy
// for each request, with the library's default settings. float32, unary, the last axis. For comparison only.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "lab/bench/listen.h"
#include "lab/bench/sync_softmax.h"
#include "softmax/v1/softmax.grpc.pb.h"

namespace {

using softmax::bench::SyncSoftmax;
using softmax::v1::SoftmaxRequest;
using softmax::v1::SoftmaxResponse;

class Service final : public softmax::v1::SoftmaxService::Service {
 public:
  explicit Service(SyncSoftmax* softmax) : softmax_(softmax) {}

  grpc::Status Softmax(grpc::ServerContext* /*context*/, const SoftmaxRequest* request,
                       SoftmaxResponse* response) override {
    const softmax::v1::Tensor& input = request->input();
    if (input.dtype() != softmax::v1::DATA_TYPE_FLOAT32 || input.shape().empty()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "input: this baseline takes float32 of rank 1 and more"};
    }
    std::int64_t rows = 1;
    for (int i = 0; i + 1 < input.shape_size(); ++i) rows *= input.shape(i);
    const std::int64_t columns = input.shape(input.shape_size() - 1);
    if (rows * columns * 4 != static_cast<std::int64_t>(input.data().size())) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "input: data does not have the shape's size"};
    }
    softmax::v1::Tensor* const output = response->mutable_output();
    const std::string error = softmax_->Run(input.data(), rows, columns, output->mutable_data());
    if (!error.empty()) return {grpc::StatusCode::INTERNAL, error};
    response->set_id(request->id());
    output->set_dtype(input.dtype());
    *output->mutable_shape() = input.shape();
    return grpc::Status::OK;
  }

 private:
  SyncSoftmax* const softmax_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A plain synchronous softmax service, to compare with");
  std::vector<std::string> addresses = {"127.0.0.1:50062"};
  bool cpu = false;
  app.add_option("--address", addresses, "host:port (port 0: any) or unix:/path, repeatable")->capture_default_str();
  app.add_flag("--cpu", cpu, "compute on the CPU even where there is a GPU");
  CLI11_PARSE(app, argc, argv);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  std::unique_ptr<SyncSoftmax> softmax = cpu ? nullptr : softmax::bench::MakeCudaSoftmax();
  if (softmax == nullptr) softmax = softmax::bench::MakeCpuSoftmax();
  Service service(softmax.get());
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  const std::unique_ptr<grpc::Server> server = softmax::bench::Listen(addresses, &service, &builder);
  if (server == nullptr) return 3;
  std::cout << "backend: " << softmax->name() << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return 0;
}
