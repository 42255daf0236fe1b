#include "client/softmax_client/connection_pool.h"

namespace softmax::client {

ConnectionPool::ConnectionPool(const ClientOptions& options)
    : target_(options.target),
      settings_{.max_receive_bytes = options.max_receive_bytes, .keepalive_time = options.keepalive_time} {
  for (int i = 0; i < options.connections; ++i) channels_.push_back(NewChannel());
}

std::shared_ptr<grpc::Channel> ConnectionPool::NewChannel() const { return CreateChannel(target_, settings_); }

std::shared_ptr<grpc::Channel> ConnectionPool::Next() {
  const std::size_t turn = next_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mu_);
  return channels_[turn % channels_.size()];
}

void ConnectionPool::Abandon(const std::shared_ptr<grpc::Channel>& channel) {
  auto fresh = NewChannel();
  std::lock_guard lock(mu_);
  for (auto& mine : channels_) {
    if (mine == channel) mine.swap(fresh);
  }
}

}  // namespace softmax::client
