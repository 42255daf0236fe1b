#pragma once

// What the planners of the CUDA kernels name of CUDA's runtime, for builds without it.
using cudaError_t = int;
using cudaStream_t = struct CUstream_st*;
constexpr cudaError_t cudaSuccess = 0;
constexpr cudaError_t cudaErrorInvalidValue = 1;
