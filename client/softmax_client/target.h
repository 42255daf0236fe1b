#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

// Reads ClientOptions::target. No gRPC here.
namespace softmax::client {

struct Address {
  std::string target;     // as gRPC takes it, and as messages name it
  bool by_name = false;   // asked for with dns:, so it may stand for several servers
  bool is_local = false;  // a unix socket: what is sent there stays on the machine
  bool is_name = false;   // its host has to be looked up, with dns: or without
};

// The addresses of a target such as `localhost:1`, `dns:///host:1`, `ipv4:10.0.0.1:1,10.0.0.2:1`, `unix:/path` or a
// list of them with commas. INVALID_ARGUMENT names what is wrong; nothing is looked up.
absl::StatusOr<std::vector<Address>> ParseTarget(const std::string& target);

// The proxy of the environment. These are gRPC's rules (http_proxy_mapper.cc of gRPC 1.51), told once more so that an
// error can name the proxy that a call went to.
struct Proxy {
  std::string address;   // without user and password
  std::string variable;  // that names it
};

// Whether a target can only be this machine: a unix socket, localhost, a loopback address. No proxy leads back to it.
bool IsOnThisMachine(const std::string& target);

// The proxy that a channel to this target goes through. Nothing: it goes straight.
std::optional<Proxy> ProxyOf(const std::string& target);

}  // namespace softmax::client
