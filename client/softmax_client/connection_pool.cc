#include "client/softmax_client/connection_pool.h"

#include <algorithm>
#include <optional>

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kStateCheck(5);
constexpr std::chrono::milliseconds kLookAgain(2000);

bool IsReady(const Connection& connection) {
  // Asking wakes a channel that has gone to sleep.
  return connection.channel->GetState(true) == GRPC_CHANNEL_READY;
}

}  // namespace

std::size_t PickConnection(const std::vector<Connection>& connections, std::size_t turn, std::size_t avoid) {
  const std::size_t count = connections.size();
  if (count == 1) return 0;
  std::optional<std::size_t> avoided;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (turn + i) % count;
    if (!IsReady(connections[at])) continue;
    if (connections[at].address != avoid) return at;
    if (!avoided) avoided = at;
  }
  if (avoided) return *avoided;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (turn + i) % count;
    const Connection& candidate = connections[at];
    if (candidate.address != avoid && candidate.channel->GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return at;
  }
  return turn % count;
}

bool IsLost(const Connection& connection, const Address& address) {
  return address.is_name && connection.channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE &&
         std::chrono::steady_clock::now() - connection.made >= kLookAgain;
}

ConnectionPool::ConnectionPool(const ClientOptions& options, std::vector<Address> addresses)
    : addresses_(std::move(addresses)),
      settings_{.max_receive_bytes = options.max_receive_bytes.value_or(-1),
                .keepalive_time = options.keepalive_time,
                .keepalive_timeout = options.keepalive_timeout,
                .authority = options.authority},
      security_(SecurityOf(options.tls)),
      health_checks_(options.health_checks) {
  if (options.tls) settings_.credentials = MakeCredentials(*options.tls);
  for (int i = 0; i < options.connections; ++i) {
    for (std::size_t a = 0; a < addresses_.size(); ++a) connections_.push_back(NewConnection(a));
  }
}

Connection ConnectionPool::NewConnection(std::size_t address) const {
  ChannelSettings settings = settings_;
  settings.round_robin = addresses_.size() > 1 || addresses_[address].by_name;
  settings.health_checks = health_checks_;
  return {CreateChannel(addresses_[address].target, settings), address, std::chrono::steady_clock::now()};
}

Connection ConnectionPool::Next(std::size_t avoid) {
  const std::size_t turn = next_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mu_);
  return connections_[PickConnection(connections_, turn, avoid)];
}

std::vector<Connection> ConnectionPool::Snapshot() {
  MutexLock lock(mu_);
  return connections_;
}

bool ConnectionPool::AnyReady() {
  const auto connections = Snapshot();
  return std::any_of(connections.begin(), connections.end(), IsReady);
}

bool ConnectionPool::AddressReady(std::size_t address, const std::vector<Connection>& connections) const {
  return std::all_of(connections.begin(), connections.end(),
                     [&](const Connection& c) { return c.address != address || IsReady(c); });
}

bool ConnectionPool::WaitUntilReady(std::chrono::system_clock::time_point deadline) {
  // One address needs no look at others meanwhile.
  const std::chrono::milliseconds step = addresses_.size() == 1 ? kLookAgain : kStateCheck;
  for (;;) {
    const auto connections = Snapshot();
    for (const Connection& connection : connections) connection.channel->GetState(true);  // all at once
    for (std::size_t a = 0; a < addresses_.size(); ++a) {
      if (AddressReady(a, connections)) return true;
    }
    const auto now = std::chrono::system_clock::now();
    if (now >= deadline) return false;
    // Waiting on one of them gets all of them on: gRPC looks at sockets only while somebody waits.
    const auto waiting = std::find_if_not(connections.begin(), connections.end(), IsReady);
    if (waiting == connections.end()) continue;
    if (waiting->channel->WaitForConnected(std::min<std::chrono::system_clock::time_point>(deadline, now + step))) {
      continue;
    }
    for (const Connection& connection : connections) RenewIfLost(connection);
  }
}

void ConnectionPool::Abandon(const std::shared_ptr<grpc::Channel>& channel) {
  MutexLock lock(mu_);
  for (Connection& mine : connections_) {
    if (mine.channel == channel) mine = NewConnection(mine.address);
  }
}

void ConnectionPool::RenewIfLost(const Connection& connection) {
  if (connection.channel && IsLost(connection, addresses_[connection.address])) Abandon(connection.channel);
}

}  // namespace softmax::client
