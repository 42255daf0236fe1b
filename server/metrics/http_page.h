#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace softmax::server {

// An answer of the metrics port beside /metrics.
struct HttpPage {
  const char* status = "200 OK";
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

// What there is for a method and a path (without its query); nothing: no such page. On the port's thread.
using HttpPages = std::function<std::optional<HttpPage>(std::string_view method, std::string_view path)>;

}  // namespace softmax::server
