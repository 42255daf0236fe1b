#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace softmax::client {

// A server on one thread that sends every unary message back as it came, but at the end of each period does nothing
// for `stall`: what arrives meanwhile waits. Serves from construction to destruction.
class StallServer {
 public:
  StallServer(std::chrono::milliseconds period, std::chrono::milliseconds stall);
  ~StallServer();

  const std::string& address() const { return address_; }

 private:
  void Run();
  void StallWhenDue() const;

  const std::chrono::milliseconds period_;
  const std::chrono::milliseconds stall_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::string address_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

}  // namespace softmax::client
