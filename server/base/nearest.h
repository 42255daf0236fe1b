#pragma once

#include <optional>
#include <string>
#include <vector>

namespace softmax::server {

// The candidate that is fewest edits away from `word`, if it is near enough to be a typo of it.
std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace softmax::server
