#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/softmax_client/channel.h"
#include "client/softmax_client/options.h"
#include "client/softmax_client/target.h"
#include "common/base/mutex.h"

namespace softmax::client {

// What the client's side of its connections is.
struct Security {
  bool tls = false;
  bool certificate = false;  // it shows one
};

inline Security SecurityOf(const std::optional<TlsOptions>& tls) {
  return {tls.has_value(), tls.has_value() && !tls->certificate_chain.empty()};
}

struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::size_t address = 0;  // its place in the target
  std::chrono::steady_clock::time_point made{};
};

// Whether a channel is to be made anew, because its name may have other addresses by now: it is not connected, failed
// last, and was made some time ago. gRPC looks a name up that could not be looked up after 1 s, then ever later, after
// 2 min at last, and cannot be told to look again.
bool IsLost(const Connection& connection, const Address& address);

// The index of the connection for the next call: a connected one, preferably to another address than `avoid`. With none
// connected, one to another address than `avoid` whose last attempt to connect has not failed. The search begins with
// number `turn` (modulo their count), which is also the last resort. `connections` is not empty.
std::size_t PickConnection(const std::vector<Connection>& connections, std::size_t turn, std::size_t avoid);
inline constexpr std::size_t kAvoidNone = -1;

// The client's channels, each its own connection, given out in turn. Thread-safe.
class ConnectionPool {
 public:
  ConnectionPool(const ClientOptions& options, std::vector<Address> addresses);

  // The next in turn, by PickConnection's rule.
  Connection Next(std::size_t avoid = kAvoidNone);

  const std::string& AddressOf(const Connection& connection) const { return addresses_[connection.address].target; }
  bool has_one_address() const { return addresses_.size() == 1 && !addresses_[0].by_name; }
  const Security& security() const { return security_; }
  bool AnyReady();

  // Connects what is not connected. False: not even one address has all of its connections in time.
  bool WaitUntilReady(std::chrono::system_clock::time_point deadline);

  // Puts a fresh channel in the place of one whose server has stopped reading; the old connection
  // is closed when its last call has ended, which also makes gRPC drop memory that it could not
  // send.
  void Abandon(const std::shared_ptr<grpc::Channel>& channel);

  // After a call on it has failed: puts a fresh channel in its place if it IsLost.
  void RenewIfLost(const Connection& connection);

 private:
  Connection NewConnection(std::size_t address) const;
  std::vector<Connection> Snapshot();
  bool AddressReady(std::size_t address, const std::vector<Connection>& connections) const;

  const std::vector<Address> addresses_;
  ChannelSettings settings_;  // constant after construction
  const Security security_;
  const bool health_checks_;
  std::atomic<std::size_t> next_ = 0;
  Mutex mu_;
  std::vector<Connection> connections_ ABSL_GUARDED_BY(mu_);  // neighbours are to different addresses
};

}  // namespace softmax::client
