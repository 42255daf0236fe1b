#pragma once

#include <cstdint>

namespace softmax::kernels::cuda {

// a / b, rounded up, for a >= 0 and b > 0.
constexpr std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace softmax::kernels::cuda
