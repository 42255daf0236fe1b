#pragma once

#include "kernels/cuda/blocks/dependent.cuh"
#include "kernels/cuda/columns/early.cuh"
#include "kernels/cuda/columns/few.cuh"
#include "kernels/cuda/columns/fold.cuh"
#include "kernels/cuda/columns/results.cuh"
#include "kernels/cuda/columns/split.cuh"
#include "kernels/cuda/columns/stats.cuh"
#include "kernels/cuda/columns/sums.cuh"

// The kernels over another axis (columns/matrix.cuh), named for one type.
namespace softmax::kernels::cuda {

// Blocks of MostColumnThreads() that a multiprocessor has to hold.
template <ColumnMode kMode>
constexpr int kColumnBlocks = kMode == ColumnMode::kSteps ? 1 : 2;
template <typename In, ColumnMode kMode>
constexpr int kColumnThreads = MostColumnThreads(kMode, sizeof(In));

// Blocks that begin together read together, and then all compute while the memory is idle. So the second and the third
// one of a multiprocessor begin later, each about when the one before has its strip.
__device__ __forceinline__ void BeginApart(const ColumnParams& params) {
  constexpr unsigned kBlocks = 3;
  const auto blocks = static_cast<unsigned>(params.apart_blocks);
  if (params.apart_cycles == 0 || blockIdx.x < blocks || blockIdx.x >= kBlocks * blocks) return;
  const long long until = clock64() + static_cast<long long>(blockIdx.x / blocks) * params.apart_cycles;
  while (clock64() < until) __nanosleep(100);
}

template <typename In, int kUnit, ColumnMode kMode, bool kMixed = false>
__global__ void __launch_bounds__((kColumnThreads<In, kMode>), kColumnBlocks<kMode>)
    ColumnMatrixKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  // On lines of 128 bytes: with the strips 16 bytes past them kernels took 2 to 17 % more time, 32 bytes past them up
  // to 4 %.
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ alignas(Scale<C>) unsigned char scale[sizeof(Scale<C>)];
  __shared__ std::uint64_t barriers[2];
  WaitForEarlierLaunches();
  AllowNextLaunch();
  if constexpr (kMode == ColumnMode::kSmall && sizeof(In) == 2 && kUnit == Element<In>::kVector) BeginApart(params);
  // The strip's first barrier comes before anyone uses the scale.
  if (threadIdx.x == 0) {
    if constexpr (sizeof(C) == 8) {
      new (scale) Scale<C>(params.scale_double);
    } else {
      new (scale) Scale<C>(params.scale_float);
    }
  }
  ColumnMatrix<In, kUnit, kMode, kMixed>(params, shared, barriers, *reinterpret_cast<const Scale<C>*>(scale)).Run();
  Complete(params.completion);
}

template <typename In, int kUnit, ColumnMode kMode>
const void* ColumnKernel() {
  // Pairs are for 16-bit elements.
  if constexpr (kUnit == 2 && sizeof(In) == 4) {
    return nullptr;
  } else {
    return reinterpret_cast<const void*>(&ColumnMatrixKernel<In, kUnit, kMode>);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
const void* MixedColumnKernel() {
  if constexpr (sizeof(In) == 8) {
    return nullptr;
  } else {
    return reinterpret_cast<const void*>(&ColumnMatrixKernel<In, kUnit, kMode, true>);
  }
}

template <typename In, int kColumns, bool kMixed = false>
const void* FewKernel(bool vectors, bool log) {
  if constexpr (kMixed && sizeof(In) == 8) {
    return nullptr;
  } else {
    return log ? ColumnFewKernelOf<In, kColumns, true, kMixed>(vectors)
               : ColumnFewKernelOf<In, kColumns, false, kMixed>(vectors);
  }
}

template <typename In>
const ColumnKernels& ColumnKernelsOf() {
  static_assert(sizeof(Normalizer<ComputeOf<In>>) <= kStripRowBytes, "planned for");
  constexpr int kVector = Element<In>::kVector;
#define SOFTMAX_FEW(...)                                                             \
  FewKernel<In, __VA_ARGS__>(false, false), FewKernel<In, __VA_ARGS__>(true, false), \
      FewKernel<In, __VA_ARGS__>(false, true), FewKernel<In, __VA_ARGS__>(true, true)
  static const ColumnKernels kernels{
      {ColumnKernel<In, 1, ColumnMode::kSmall>(), ColumnKernel<In, 2, ColumnMode::kSmall>(),
       ColumnKernel<In, kVector, ColumnMode::kSmall>(), ColumnKernel<In, 1, ColumnMode::kKept>(),
       ColumnKernel<In, 2, ColumnMode::kKept>(), ColumnKernel<In, kVector, ColumnMode::kKept>(),
       ColumnKernel<In, 1, ColumnMode::kSteps>(), ColumnKernel<In, 2, ColumnMode::kSteps>(),
       ColumnKernel<In, kVector, ColumnMode::kSteps>()},
      {SOFTMAX_FEW(8), SOFTMAX_FEW(16), SOFTMAX_FEW(32), SOFTMAX_FEW(64)},
      {MixedColumnKernel<In, 1, ColumnMode::kSmall>(), MixedColumnKernel<In, kVector, ColumnMode::kSmall>(),
       MixedColumnKernel<In, 1, ColumnMode::kKept>(), MixedColumnKernel<In, kVector, ColumnMode::kKept>(),
       MixedColumnKernel<In, 1, ColumnMode::kSteps>(), MixedColumnKernel<In, kVector, ColumnMode::kSteps>()},
      {SOFTMAX_FEW(8, true), SOFTMAX_FEW(16, true), SOFTMAX_FEW(32, true)}};
#undef SOFTMAX_FEW
  return kernels;
}

}  // namespace softmax::kernels::cuda
