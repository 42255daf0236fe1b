#include "tests/simulation/shrink.h"

#include <algorithm>
#include <utility>

namespace softmax::simulation {
namespace {

Script Without(const Script& script, std::size_t begin, std::size_t end) {
  Script shorter{script.seed, script.settings, {}};
  shorter.actions.reserve(script.actions.size() - (end - begin));
  const auto at = [&](std::size_t i) { return script.actions.begin() + static_cast<std::ptrdiff_t>(i); };
  shorter.actions.insert(shorter.actions.end(), at(0), at(begin));
  shorter.actions.insert(shorter.actions.end(), at(end), script.actions.end());
  return shorter;
}

}  // namespace

Script Shrink(Script script, const std::function<bool(const Script&)>& fails) {
  for (std::size_t piece = std::max<std::size_t>(script.actions.size() / 2, 1);;) {
    bool shorter = false;
    for (std::size_t end = script.actions.size(); end > 0;) {
      const std::size_t begin = end > piece ? end - piece : 0;
      Script candidate = Without(script, begin, end);
      if (fails(candidate)) {
        script = std::move(candidate);
        shorter = true;
      }
      end = begin;
    }
    if (piece == 1 && !shorter) return script;
    if (!shorter) piece = (piece + 1) / 2;
    piece = std::min(piece, std::max<std::size_t>(script.actions.size() / 2, 1));
  }
}

}  // namespace softmax::simulation
