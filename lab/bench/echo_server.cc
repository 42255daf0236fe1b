// The transport's ceiling: a bare echo of the same bytes, on raw completion queues, with the service's own process and
// channel settings. A SoftmaxRequest of an id and an input, sent back as it came, is a well-formed SoftmaxResponse, and
// so is a message of a stream.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>
#include <vector>

#include "common/base/process_settings.h"
#include "common/base/usable_cores.h"
#include "lab/bench/echo_calls.h"
#include "lab/bench/listen.h"
#include "server/rpc/accept/channel_settings.h"
#include "server/rpc/guard/tensor_methods.h"
#include "server/rpc/queue/call.h"

namespace {

using softmax::bench::EchoQueue;
using softmax::bench::RotatingBuffer;

constexpr int kArmedUnaryCalls = 64;
constexpr int kArmedStreamCalls = 8;
// Of all threads together.
constexpr std::size_t kCopyBytes = 64 << 20;

struct Settings {
  std::vector<std::string> addresses = {"127.0.0.1:50061"};
  unsigned threads = softmax::QueuesFor(softmax::CoresOfThisProcess().count);
  bool copy = false;
  bool c_interface = false;
  std::size_t answer_bytes = 0;
};

void Serve(const EchoQueue& queue) {
  for (int i = 0; i < kArmedUnaryCalls; ++i) softmax::bench::ArmUnaryEcho(queue);
  for (int i = 0; i < kArmedStreamCalls; ++i) softmax::bench::ArmStreamEcho(queue);
  void* tag = nullptr;
  bool ok = false;
  while (queue.queue->Next(&tag, &ok)) static_cast<softmax::server::Tag*>(tag)->Proceed(ok);
}

int Run(const Settings& settings) {
  softmax::SetPoller(/*own_sockets=*/true);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  softmax::bench::AsyncService service;
  softmax::server::TensorService methods(softmax::server::kSoftmaxMethod, softmax::server::kSoftmaxStreamMethod);
  grpc::ServerBuilder builder;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  std::vector<std::unique_ptr<RotatingBuffer>> copies;
  for (unsigned i = 0; i < settings.threads; ++i) {
    queues.push_back(builder.AddCompletionQueue());
    if (settings.copy) copies.push_back(std::make_unique<RotatingBuffer>(kCopyBytes / settings.threads));
  }
  std::cout << "queues: " << settings.threads << (settings.c_interface ? ", unary calls by the C interface" : "")
            << (settings.copy ? ", with a copy" : "") << std::endl;
  softmax::server::ApplyServerSettings({}, &builder);
  grpc::Service* const served = settings.c_interface ? static_cast<grpc::Service*>(&methods) : &service;
  const std::unique_ptr<grpc::Server> server = softmax::bench::Listen(settings.addresses, served, &builder);
  if (server == nullptr) return 3;
  std::vector<EchoQueue> serving;
  serving.reserve(settings.threads);  // calls keep pointers to them
  for (unsigned i = 0; i < settings.threads; ++i) {
    serving.push_back({settings.c_interface ? nullptr : &service, settings.c_interface ? &methods : nullptr,
                       server.get(), queues[i].get(), settings.copy ? copies[i].get() : nullptr,
                       settings.answer_bytes});
  }
  std::vector<std::thread> workers;
  for (const EchoQueue& queue : serving) workers.emplace_back([&queue] { Serve(queue); });
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  for (auto& queue : queues) queue->Shutdown();
  for (std::thread& worker : workers) worker.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  softmax::ApplyProcessSettings();
  CLI::App app("Echoes SoftmaxService's messages, unary and streams: what the transport alone can do");
  Settings settings;
  app.add_option("--address", settings.addresses, "host:port (port 0: any) or unix:/path, repeatable")
      ->capture_default_str();
  app.add_option("--threads", settings.threads, "completion queues, one thread each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_flag("--copy", settings.copy, "also copy every message once, into a buffer of 64 MiB in turn");
  app.add_flag("--c-interface", settings.c_interface,
               "unary calls by gRPC's C interface, as softmax-server has them, instead of the C++ one");
  app.add_option("--answer-bytes", settings.answer_bytes,
                 "a sink: unary calls are answered with so many bytes instead; 0: an echo")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return Run(settings);
}
