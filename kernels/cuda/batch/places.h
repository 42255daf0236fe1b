#pragma once

#include <algorithm>
#include <cstdint>

// The order in which the units of a batch that no cluster runs are taken.
namespace softmax::kernels::cuda {

// Those of small rows are spread among the others at equal distances, so that the trips to their many segments do not
// come all at once. The last of them, whose rows are the smallest, come after all others: blocks that are done early
// take these while the others end.
class UnitPlaces {
 public:
  // `first`: of all places; `small`: how many of the `all` units are of small rows; `last`: how many of these come last
  // at most.
  UnitPlaces(std::uint32_t first, std::uint32_t all, std::uint32_t small, std::uint32_t last)
      : first_(first), spread_(small - std::min(small, last)), body_(all - std::min(small, last)) {}

  std::uint32_t NextSmall() {
    const std::uint64_t i = small_++;
    return first_ + static_cast<std::uint32_t>(i < spread_ ? i * body_ / spread_ : body_ + i - spread_);
  }
  std::uint32_t NextOther() {
    while (IsSmall(others_)) ++others_;
    return first_ + others_++;
  }

 private:
  // Whether a place is one of those that are spread.
  bool IsSmall(std::uint64_t place) const {
    const std::uint64_t nearest = (place * spread_ + body_ - 1) / body_;
    return nearest < spread_ && nearest * body_ / spread_ == place;
  }

  std::uint32_t first_;
  std::uint64_t spread_;
  std::uint64_t body_;  // places before the last small ones
  std::uint32_t small_ = 0;
  std::uint32_t others_ = 0;
};

}  // namespace softmax::kernels::cuda
