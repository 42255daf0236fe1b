#include "client/cli/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace softmax::client {
namespace {

// How many letters must be changed, put in or left out to get from one word to the other.
std::size_t Changes(const std::string& from, const std::string& to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t other = std::min(row[j], row[j + 1]) + 1;
      const std::size_t same = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min(other, same));
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t fewest = std::max<std::size_t>(2, word.size() / 4) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t changes = Changes(word, candidate);
    if (changes >= fewest) continue;
    fewest = changes;
    best = candidate;
  }
  return best;
}

}  // namespace softmax::client
