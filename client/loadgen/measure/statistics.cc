#include "client/loadgen/measure/statistics.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace softmax::client {
namespace {

// The two-sided 95 % point of Student's t.
double StudentT(std::size_t degrees) {
  static constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                      2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                      2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees <= std::size(kTable)) return kTable[degrees - 1];
  // Cornish-Fisher's first term; within 0.001 from 31 degrees on.
  const double z = 1.959964;
  return z + (z * z * z + z) / (4 * static_cast<double>(degrees));
}

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of the mean of these; NaN of a single one.
double VarianceOfMean(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / (count - 1) / count;
}

}  // namespace

double MeanTogether(double mean, std::uint64_t count, double of_more, std::uint64_t more) {
  if (count == 0) return of_more;
  return mean + (of_more - mean) * static_cast<double>(more) / static_cast<double>(count + more);
}

Interval MeanInterval(const std::vector<double>& values) {
  if (values.empty()) return {};
  if (values.size() == 1) return {values[0], 0};
  return {MeanOf(values), StudentT(values.size() - 1) * std::sqrt(VarianceOfMean(values))};
}

Interval DifferenceInterval(const std::vector<double>& before, const std::vector<double>& after) {
  Interval interval{MeanOf(after) - MeanOf(before), std::numeric_limits<double>::quiet_NaN()};
  if (before.size() < 2 || after.size() < 2) return interval;
  const double a = VarianceOfMean(before);
  const double b = VarianceOfMean(after);
  if (std::isnan(a + b)) return interval;
  interval.half_width = 0;
  if (a + b == 0) return interval;
  const double degrees =
      (a + b) * (a + b) /
      (a * a / static_cast<double>(before.size() - 1) + b * b / static_cast<double>(after.size() - 1));
  interval.half_width = StudentT(static_cast<std::size_t>(degrees)) * std::sqrt(a + b);
  return interval;
}

}  // namespace softmax::client
