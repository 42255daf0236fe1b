#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace softmax::client {

struct HttpLocation {
  std::string host;  // a name or an address; IPv6 without its brackets
  std::string port;  // decimal
  std::string path;  // begins with '/'
};

// Reads "host:port", "[v6]:port" or "http://host:port/path"; without a path it is `default_path`.
// INVALID_ARGUMENT names what is wrong.
absl::StatusOr<HttpLocation> ParseHttpLocation(std::string_view text, std::string_view default_path);

struct HttpLimits {
  // For connecting, asking and reading together. Looking up a name has the resolver's own limit.
  std::chrono::milliseconds timeout{2000};
  std::size_t body_bytes = 16u << 20;
};

// The body of a plain GET: HTTP/1.0, no TLS, no redirects. Blocks the calling thread; any thread may call.
// UNAVAILABLE: nobody answers there. DEADLINE_EXCEEDED: too slow. RESOURCE_EXHAUSTED: longer than body_bytes.
// NOT_FOUND: a status other than 200. DATA_LOSS: not HTTP, or cut short.
absl::StatusOr<std::string> HttpGet(const HttpLocation& location, const HttpLimits& limits);

// The body of such an answer, once its connection has ended. Errors as HttpGet's, without the address.
absl::StatusOr<std::string> HttpBody(std::string answer, std::size_t body_bytes);

}  // namespace softmax::client
