#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/bench/point.h"
#include "kernels/bench/results.h"

namespace softmax::kernels::bench {

struct RunSettings {
  int samples = 30;
  int threads = 1;  // of cpu_all
  std::uint64_t seed = 1;
  std::string cudnn;  // a path of the library; empty: where the loader finds it
};

// Measures the points of some sections.
class Runner {
 public:
  virtual ~Runner() = default;

  virtual bool Offers(const Point& point, const std::string& provider) const = 0;

  // One result for each provider, all of which it offers. Failures are results with an error; nothing is thrown.
  virtual std::vector<Result> Measure(const Point& point, const std::vector<std::string>& providers) = 0;

  virtual std::string device() const = 0;
};

inline constexpr char kCopy[] = "copy";
inline constexpr char kOurs[] = "softmax";

}  // namespace softmax::kernels::bench
