#pragma once

#include <optional>
#include <string>
#include <vector>

namespace softmax::client {

// The candidate that `word` is most likely a slip of. Nothing: none is near.
std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace softmax::client
