#include "client/loadgen/measure/statistics.h"

#include <cmath>
#include <cstddef>
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

}  // namespace

Interval MeanInterval(const std::vector<double>& values) {
  Interval interval;
  if (values.empty()) return interval;
  const auto count = static_cast<double>(values.size());
  interval.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return interval;
  double squares = 0;
  for (const double value : values) squares += (value - interval.mean) * (value - interval.mean);
  interval.half_width = StudentT(values.size() - 1) * std::sqrt(squares / (count - 1) / count);
  return interval;
}

}  // namespace softmax::client
