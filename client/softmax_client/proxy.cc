#include "client/softmax_client/proxy.h"

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "client/softmax_client/target.h"
#include "common/base/address.h"

namespace softmax::client {
namespace {

constexpr std::uint32_t kLoopbackNet = 127;

bool IsLoopback4(const in_addr& address) {
  const std::uint32_t number = ntohl(address.s_addr);
  return number >> 24 == kLoopbackNet || number == INADDR_ANY;
}

bool IsLoopback6(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == kLoopbackNet;
  return IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_UNSPECIFIED(&address);
}

// Whether no_grpc_proxy or no_proxy ends with the host's own name or domain.
bool IsExcepted(const std::string& host) {
  const char* list = std::getenv("no_grpc_proxy");
  if (list == nullptr) list = std::getenv("no_proxy");
  if (list == nullptr) return false;
  for (const absl::string_view name : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    if (absl::EndsWithIgnoreCase(host, name)) return true;
  }
  return false;
}

}  // namespace

bool IsOnThisMachine(const std::string& target) {
  if (absl::StartsWith(SchemeOf(target), "unix")) return true;
  std::string host = HostOf(target);
  host.resize(std::min(host.find('%'), host.size()));  // the interface of an IPv6 address
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IsLoopback6(v6);
  in_addr v4 = {};
  if (inet_aton(host.c_str(), &v4) != 0) return IsLoopback4(v4);  // 127.1 too, as resolvers read it
  const absl::string_view name = absl::StripSuffix(host, ".");
  for (const absl::string_view local : {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"}) {
    if (absl::EqualsIgnoreCase(name, local)) return true;
  }
  return absl::EndsWithIgnoreCase(name, ".localhost");
}

std::optional<Proxy> ProxyOf(const std::string& target) {
  if (IsOnThisMachine(target) || IsExcepted(HostOf(target))) return std::nullopt;
  for (const char* variable : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;  // a variable that is empty ends the search
    absl::string_view url = value;
    if (!absl::ConsumePrefix(&url, "http://")) return std::nullopt;
    url = url.substr(0, url.find('/'));
    const std::size_t user_end = url.rfind('@');
    if (user_end != absl::string_view::npos) url.remove_prefix(user_end + 1);
    return Proxy{std::string(url), variable};
  }
  return std::nullopt;
}

}  // namespace softmax::client
