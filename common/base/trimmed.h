#pragma once

#include <string_view>

namespace softmax {

// The text without these characters at either end.
inline std::string_view Trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace softmax
