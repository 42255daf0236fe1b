#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace softmax::kernels::bench {

inline std::string DeviceName() {
  int device = 0;
  cudaDeviceProp properties = {};
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    return "GPU";
  return properties.name;
}

}  // namespace softmax::kernels::bench
