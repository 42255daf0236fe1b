#pragma once

#include <cstdlib>
#include <string_view>

namespace softmax::testing {

// Whether a variable turns something on: it is set, and neither empty nor 0.
inline bool IsOn(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) != "" && std::string_view(value) != "0";
}

}  // namespace softmax::testing
