#pragma once

#include <optional>
#include <string>
#include <vector>

namespace softmax {

// The candidate that is fewest edits away from `word`, if it is near enough to be a typo of it.
std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& candidates);

// "unknown flag --adress (did you mean --address?)" of the first of these words that is written like a flag, all of
// them being words that no flag took; empty: none is. `flags` are without "--".
std::string UnknownFlag(const std::vector<std::string>& words, const std::vector<std::string>& flags);

}  // namespace softmax
