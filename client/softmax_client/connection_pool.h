#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "client/softmax_client/channel.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::client {

// The client's channels, each its own connection, given out in turn. Thread-safe.
class ConnectionPool {
 public:
  explicit ConnectionPool(const ClientOptions& options);

  std::shared_ptr<grpc::Channel> Next();

  // Puts a fresh channel in the place of one whose server has stopped reading; the old connection
  // is closed when its last call has ended, which also makes gRPC drop memory that it could not
  // send.
  void Abandon(const std::shared_ptr<grpc::Channel>& channel);

 private:
  std::shared_ptr<grpc::Channel> NewChannel() const;

  const std::string target_;
  const ChannelSettings settings_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mu_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // guarded by mu_
};

}  // namespace softmax::client
