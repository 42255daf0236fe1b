#pragma once

#include <optional>
#include <string_view>

// Addresses as people write them: "host:port", "[v6]:port" or "unix:/path". Cut into pieces here; which of them are
// allowed, and the words for those that are not, are the caller's.
namespace softmax {

// Views into the text that was cut.
struct HostPort {
  std::string_view host;     // a name or a number, without its brackets
  std::string_view port;     // all behind the last colon; see ParsePort
  bool in_brackets = false;  // as an IPv6 address has to be
};

// Nothing: no colon, or nothing before it.
std::optional<HostPort> SplitHostPort(std::string_view text);

// 0 to 65535. Nothing: no such number.
std::optional<int> ParsePort(std::string_view text);

// What follows "unix:", which may be empty. Nothing: no unix socket.
std::optional<std::string_view> UnixPath(std::string_view text);

}  // namespace softmax
