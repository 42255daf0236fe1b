#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace softmax::kernels::bench {

// Throws what went wrong; the runners catch it and make it the point's error.
inline void CudaCheck(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace softmax::kernels::bench
