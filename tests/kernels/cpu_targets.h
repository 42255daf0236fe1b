#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

// Lets a test choose which of Highway's instruction sets the CPU kernels use.
namespace softmax::testing {

// Those that both this machine and the kernels' build have, the best one first.
inline std::vector<std::int64_t> CpuTargets() {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SSE4},
                                    std::int64_t{HWY_NEON}, std::int64_t{HWY_STATIC_TARGET}}) {
    const bool is_built = (HWY_TARGETS & target) != 0;
    const bool is_known = !targets.empty() && targets.back() == target;
    if (is_built && !is_known && (hwy::SupportedTargets() & target) != 0) {
      targets.push_back(target);
    }
  }
  return targets;
}

inline std::string NameOfCpuTarget(std::int64_t target) { return hwy::TargetName(target); }

// While it lives, the kernels run on this target only.
class OnlyTarget {
 public:
  explicit OnlyTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  OnlyTarget(const OnlyTarget&) = delete;
  OnlyTarget& operator=(const OnlyTarget&) = delete;
};

}  // namespace softmax::testing
