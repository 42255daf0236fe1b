#pragma once

#include <memory>

#include "kernels/bench/point.h"

namespace softmax::kernels::bench {

// oneDNN's softmax for one point, where the program was built with it.
class OneDnn {
 public:
  virtual ~OneDnn() = default;
  virtual void Run(const void* input, void* output) = 0;

  static bool Available();
  // Null, and why, where the library cannot run the point.
  static std::unique_ptr<OneDnn> Create(const Point& point, int threads, std::string* reason);
};

}  // namespace softmax::kernels::bench
