#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>
#include <vector>

#include "kernels/cuda/registry.h"

// A unit of kernels has one source, which the build compiles once for each element type:
//   SOFTMAX_ELEMENT       the type, as __half
//   SOFTMAX_ELEMENT_NAME  what its functions' names begin with, as Float16
#if !defined(SOFTMAX_ELEMENT) || !defined(SOFTMAX_ELEMENT_NAME)
#error "kernels/cuda/CMakeLists.txt says the element type"
#endif

#define SOFTMAX_JOIN(a, b) a##b
#define SOFTMAX_JOIN_NAMES(a, b) SOFTMAX_JOIN(a, b)
// Defines the unit's function, as Float16BatchKernels(), by its own Make<In>().
#define SOFTMAX_UNIT(name)                                                      \
  const std::vector<Kernel>& SOFTMAX_JOIN_NAMES(SOFTMAX_ELEMENT_NAME, name)() { \
    static const std::vector<Kernel> all = Make<SOFTMAX_ELEMENT>();             \
    return all;                                                                 \
  }

namespace softmax::kernels::cuda {

// Calls f(std::integral_constant) with each of the numbers, or with false and true.
template <int... kNumbers, typename F>
void ForEach(F f) {
  (f(std::integral_constant<int, kNumbers>()), ...);
}
template <typename F>
void ForBoth(F f) {
  f(std::false_type());
  f(std::true_type());
}

template <typename F>
const void* Address(F* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace softmax::kernels::cuda
