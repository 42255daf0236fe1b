#pragma once

#include <cstdint>

namespace softmax::simulation {

// Numbers that depend on a seed and on what they are for only, and not on how many were drawn before: a script stays
// the same when some of its actions are taken out.
class Random {
 public:
  // One stream of the seed, such as "what action 17 is".
  Random(std::uint64_t seed, std::uint64_t stream, std::uint64_t index = 0)
      : state_(Mix(seed * 0x9E3779B97F4A7C15u + Mix(stream * 0xD1B54A32D192ED03u + index))) {}

  std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15u;
    return Mix(state_);
  }
  // 0 to limit - 1.
  std::uint64_t Below(std::uint64_t limit) { return limit == 0 ? 0 : Next() % limit; }
  // Both ends included.
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }

 private:
  static std::uint64_t Mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }
  std::uint64_t state_;
};

}  // namespace softmax::simulation
