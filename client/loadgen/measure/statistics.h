#pragma once

#include <cstdint>
#include <vector>

namespace softmax::client {

// A mean and how far the true one may lie from it, with 95 % confidence under Student's t.
struct Interval {
  double mean = 0;
  double half_width = 0;  // 0 for a single value: nothing is known
};

// Of `count` values with this mean, and `more` (not none of both) with that one.
double MeanTogether(double mean, std::uint64_t count, double of_more, std::uint64_t more);

Interval MeanInterval(const std::vector<double>& values);

// Of the mean of `after` less that of `before`, which may vary differently (Welch). half_width is NaN where either has
// fewer than two values, or one that is not known (NaN).
Interval DifferenceInterval(const std::vector<double>& before, const std::vector<double>& after);

}  // namespace softmax::client
