#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A family of kernels has one source, which the build compiles once for each element type:
//   SOFTMAX_ELEMENT       the type, as __half
//   SOFTMAX_ELEMENT_NAME  what its tables' names begin with, as Float16
#if !defined(SOFTMAX_ELEMENT) || !defined(SOFTMAX_ELEMENT_NAME)
#error "kernels/cuda/CMakeLists.txt says the element type"
#endif

#define SOFTMAX_JOIN(a, b) a##b
#define SOFTMAX_JOIN_NAMES(a, b) SOFTMAX_JOIN(a, b)
// The element's table, as Float16MatrixKernels.
#define SOFTMAX_OF_ELEMENT(table) SOFTMAX_JOIN_NAMES(SOFTMAX_ELEMENT_NAME, table)
