#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/core/row_part.cuh"
#include "kernels/cuda/rows/matrix.h"

// What all kernels of one matrix of contiguous rows ask their parameters.
namespace softmax::kernels::cuda {

// By every block before its first access to memory that others may write or read.
__device__ __forceinline__ void BeginAccess(const MatrixParams& params) {
  WaitForEarlierLaunches();
  if (params.next_early) AllowNextLaunch();
}

__device__ __forceinline__ std::int64_t ValidLength(const MatrixParams& params, std::int64_t row) {
  if (params.lengths == nullptr) return params.cols;
  const std::int64_t length = params.lengths[row];
  return length < params.cols ? length : params.cols;
}

// Calls f with the beginning of an output row: of In's type, or (kMixed) of the other that the launch names.
template <typename In, bool kMixed, typename F>
__device__ __forceinline__ void ForOutput(const MatrixParams& params, std::int64_t row, F f) {
  ForOutputType<In, !kMixed>(params.output_type, [&](auto* type) {
    f(static_cast<decltype(type)>(params.output) + row * params.output_stride);
  });
}

// What may be read around columns [column, column + n) of a row: nothing where there is no such row.
template <typename In>
__device__ __forceinline__ Around AroundOf(const MatrixParams& params, std::int64_t row, std::int64_t column,
                                           std::int64_t n) {
  const std::int64_t at = row * params.input_stride + column;
  return {at >= Element<In>::kVector && at < params.elements, params.elements - (at + n) >= Element<In>::kVector};
}

// Whether a kernel is for log-softmax, or for whatever its launch says.
enum class LogForm { kNo, kYes, kAny };
template <LogForm kLogForm>
__device__ __forceinline__ bool IsLog(const MatrixParams& params) {
  return kLogForm == LogForm::kAny ? params.log : kLogForm == LogForm::kYes;
}

}  // namespace softmax::kernels::cuda
