#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// fp32 rows of one large element and many equal ones, whose distance from it no float holds: all terms of the sum are
// off in the same way, by up to half an ulp of the distance, which no term's own distance allows the largest element's
// result (docs/numerics.md).
namespace softmax::testing {

struct TwoValues {
  std::int64_t cols;
  float max;
  float below;

  std::vector<float> Row() const {
    std::vector<float> row(static_cast<std::size_t>(cols), below);
    row[row.size() / 3] = max;
    return row;
  }
};

// Of the floats from 0.2 on, the one whose distance from `max` rounding changes most, among the first few thousand.
inline TwoValues WorstTwoValues(std::int64_t cols, float max) {
  TwoValues worst{cols, max, 0.2f};
  double most = 0;
  float below = 0.2f;
  for (int i = 0; i < 5000; ++i, below = std::nextafter(below, 1.0f)) {
    const double distance = static_cast<double>(max) - below;
    const double error = std::abs(distance - static_cast<float>(distance));
    if (error <= most) continue;
    most = error;
    worst.below = below;
  }
  return worst;
}

// Whether all results are numbers above 0 and at most 1: the largest error that a Judgement has is that of such.
inline bool AreShares(const float* results, std::int64_t count) {
  return std::all_of(results, results + count, [](float y) { return y > 0 && y <= 1; });
}

// Many of them: the wider the row, the farther away its elements still weigh.
inline std::vector<TwoValues> RowsOfTwoValues() {
  std::vector<TwoValues> rows;
  for (const std::int64_t cols : {300, 4096, 65536, 262144, 1000003}) {
    for (const float max : {2.3f, 4.3f, 8.3f, 8.5f, 10.0f, 12.0f, 16.3f}) rows.push_back(WorstTwoValues(cols, max));
  }
  return rows;
}

}  // namespace softmax::testing
