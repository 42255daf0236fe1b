#include "client/softmax_client/target.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "common/base/address.h"

namespace softmax::client {
namespace {

constexpr absl::string_view kSchemes[] = {"ipv4:", "ipv6:", "dns:", "unix-abstract:", "unix:"};

// Empty: the address begins with none.
absl::string_view SchemeOf(absl::string_view address) {
  for (const absl::string_view scheme : kSchemes) {
    if (absl::StartsWith(address, scheme)) return scheme;
  }
  return "";
}

// Of "ipv4:10.0.0.1:1" and "dns://server/host:1" alike; empty: it has none.
std::string HostOf(absl::string_view address) {
  address.remove_prefix(SchemeOf(address).size());
  if (absl::ConsumePrefix(&address, "//")) address.remove_prefix(std::min(address.find('/') + 1, address.size()));
  const auto pieces = SplitHostPort({address.data(), address.size()});
  return pieces ? std::string(pieces->host) : "";
}

bool EndsWithPort(absl::string_view address) {
  const auto pieces = SplitHostPort({address.data(), address.size()});
  if (!pieces) return false;
  // gRPC takes a port with blanks around it.
  const auto port = absl::StripAsciiWhitespace(absl::string_view(pieces->port.data(), pieces->port.size()));
  return ParsePort({port.data(), port.size()}).value_or(0) > 0;
}

// IPv4 as resolvers read it, 127.1 too; an IPv6 address may name its interface.
bool IsNumeric(std::string host) {
  host.resize(std::min(host.find('%'), host.size()));
  in6_addr v6 = {};
  in_addr v4 = {};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 || inet_aton(host.c_str(), &v4) != 0;
}

absl::Status Wrong(absl::string_view address, absl::string_view why) {
  return absl::InvalidArgumentError("target: '" + std::string(address) + "' " + std::string(why));
}

absl::Status Check(absl::string_view address, absl::string_view scheme) {
  if (absl::StartsWith(scheme, "unix")) {
    return address.size() > scheme.size() ? absl::OkStatus() : Wrong(address, "has no path");
  }
  if (scheme.empty() && absl::StrContains(address, "/")) {
    return Wrong(address, "must be host:port, dns:///host:port, ipv4:, ipv6: or unix:");
  }
  if (scheme == "dns:" && absl::StartsWith(address, "dns://") && !absl::StrContains(address.substr(6), "/")) {
    return Wrong(address, "names a DNS server only; write dns:///host:port");
  }
  if (!EndsWithPort(address.substr(scheme.size()))) return Wrong(address, "has no port (1 to 65535) at its end");
  return absl::OkStatus();
}

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

absl::StatusOr<std::vector<Address>> ParseTarget(const std::string& target) {
  if (target.empty()) return absl::InvalidArgumentError("target: is empty");
  std::vector<Address> addresses;
  absl::string_view inherited;
  for (const absl::string_view part : absl::StrSplit(target, ',')) {
    if (part.empty()) return absl::InvalidArgumentError("target: '" + target + "' has an empty address");
    absl::string_view scheme = SchemeOf(part);
    std::string whole(part);
    // In gRPC's own lists of addresses only the first has the scheme.
    if (scheme.empty() && !inherited.empty()) {
      scheme = inherited;
      whole.insert(0, std::string(scheme));
    }
    const absl::Status status = Check(whole, scheme);
    if (!status.ok()) return status;
    const bool is_name = (scheme.empty() || scheme == "dns:") && !IsNumeric(HostOf(whole));
    addresses.push_back({whole, scheme == "dns:", absl::StartsWith(scheme, "unix"), is_name});
    inherited = absl::StartsWith(scheme, "ipv") ? scheme : "";
  }
  return addresses;
}

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
