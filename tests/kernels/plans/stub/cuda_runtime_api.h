#pragma once

#include <cstddef>

// What the planners of the CUDA kernels name of CUDA's runtime, for builds without it. Their question how many blocks a
// device holds is answered for the model at hand (plans/no_kernels.cc).
using cudaError_t = int;
using cudaStream_t = struct CUstream_st*;
constexpr cudaError_t cudaSuccess = 0;
constexpr cudaError_t cudaErrorInvalidValue = 1;

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          std::size_t dynamic_bytes);
cudaError_t cudaGetLastError();
