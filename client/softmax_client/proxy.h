#pragma once

#include <optional>
#include <string>

// The proxy of the environment. No gRPC here: these are its rules (http_proxy_mapper.cc of gRPC 1.51), told once more
// so that an error can name the proxy that a call went to.
namespace softmax::client {

struct Proxy {
  std::string address;   // without user and password
  std::string variable;  // that names it
};

// Whether a target can only be this machine: a unix socket, localhost, a loopback address. No proxy leads back to it.
bool IsOnThisMachine(const std::string& target);

// The proxy that a channel to this target goes through. Nothing: it goes straight.
std::optional<Proxy> ProxyOf(const std::string& target);

}  // namespace softmax::client
