#include "common/base/address.h"

#include <charconv>

namespace softmax {

std::optional<HostPort> SplitHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool in_brackets = host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  return HostPort{host, text.substr(colon + 1), in_brackets};
}

std::optional<int> ParsePort(std::string_view text) {
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stop != end || port < 0 || port > 65535) return std::nullopt;
  return port;
}

std::optional<std::string_view> UnixPath(std::string_view text) {
  if (!text.starts_with("unix:")) return std::nullopt;
  return text.substr(5);
}

}  // namespace softmax
