#pragma once

#include <cstddef>

// What the planners of the CUDA kernels name of CUDA's runtime, for builds without it. Their two questions about how
// many blocks a device holds are answered for the model at hand (plans/no_kernels.cc).
using cudaError_t = int;
using cudaStream_t = struct CUstream_st*;
constexpr cudaError_t cudaSuccess = 0;
constexpr cudaError_t cudaErrorInvalidValue = 1;

struct dim3 {
  explicit dim3(unsigned x_size) : x(x_size) {}
  unsigned x;
  unsigned y = 1;
  unsigned z = 1;
};
constexpr int cudaLaunchAttributeClusterDimension = 4;
struct cudaLaunchAttribute {
  int id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim{1};
  dim3 blockDim{1};
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel, const cudaLaunchConfig_t* config);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          std::size_t dynamic_bytes);
cudaError_t cudaGetLastError();
