#pragma once

#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace softmax::client {

// Variables of the environment as a test needs them, and as they were again at its end. Not beside other threads.
class ScopedEnvironment {
 public:
  // nullptr: not set.
  ScopedEnvironment(std::initializer_list<std::pair<const char*, const char*>> variables) {
    for (const auto& [name, value] : variables) {
      const char* old = std::getenv(name);
      before_.emplace_back(name, old == nullptr ? std::nullopt : std::make_optional<std::string>(old));
      Set(name, value);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) Set(name.c_str(), value ? value->c_str() : nullptr);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void Set(const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, /*overwrite=*/1);
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace softmax::client
