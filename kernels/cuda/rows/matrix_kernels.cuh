#pragma once

#include <algorithm>

#include "kernels/cuda/large_rows/chunk.cuh"
#include "kernels/cuda/large_rows/few.cuh"
#include "kernels/cuda/large_rows/large.cuh"
#include "kernels/cuda/large_rows/wide.cuh"
#include "kernels/cuda/small_rows/narrow.cuh"
#include "kernels/cuda/small_rows/split.cuh"
#include "kernels/cuda/small_rows/tiny.cuh"

// Names every matrix kernel of one type.
namespace softmax::kernels::cuda {

template <typename In, int kSlots, bool kSkew, bool kLog>
const void* SmallMatrix() {
  return reinterpret_cast<const void*>(&SmallMatrixKernel<In, kSlots, kSkew, kLog, SmallRows(kSlots)>);
}

// Blocks a multiprocessor has to hold: as many as leave the registers that the kept vectors need.
template <typename In, int kSlots, bool kSkew, bool kLog>
const void* LargeMatrix() {
  if constexpr (!HasLarge(kSlots, sizeof(In))) {
    return nullptr;
  } else {
    constexpr int kThreads = kSlots == kChunkSlots ? kWideThreads : kMatrixThreads;
    constexpr int kMinBlocks = kSlots == kChunkSlots ? 2 : 3;
    return reinterpret_cast<const void*>(&LargeMatrixKernel<In, kSlots, kSkew, kLog, kThreads, kMinBlocks>);
  }
}

template <typename In, bool kLog>
const void* ChunkMatrix() {
  if constexpr (sizeof(In) <= 4) {
    return reinterpret_cast<const void*>(&ChunkMatrixKernel<In, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In, bool kGrid, bool kLog>
const void* FewMatrix() {
  if constexpr (sizeof(In) <= 4) {
    return reinterpret_cast<const void*>(&FewMatrixKernel<In, kLog, kGrid>);
  } else {
    return nullptr;
  }
}

template <typename In, bool kSkew, bool kLog>
const void* SliceMatrix() {
  return reinterpret_cast<const void*>(&SliceMatrixKernel<In, kSkew, kLog>);
}

template <typename In, int kSlots, bool kSkew, bool kLog>
const void* SingleMatrix() {
  return reinterpret_cast<const void*>(&SmallMatrixKernel<In, kSlots, kSkew, kLog, 1>);
}

template <typename In, bool kSkew, bool kLog>
const void* SplitMatrix() {
  return reinterpret_cast<const void*>(&SplitMatrixKernel<In, kSkew, kLog>);
}

template <typename In, bool kSkew, bool kLog>
const void* WideMatrix() {
  return reinterpret_cast<const void*>(&WideMatrixKernel<In, kSkew, kLog>);
}

template <typename In, int kVectors, bool kLog>
const void* TinyMatrix() {
  if constexpr (HasTinyKernel(kVectors, sizeof(In))) {
    return reinterpret_cast<const void*>(&TinyMatrixKernel<In, kVectors * Element<In>::kVector, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In, int kColumns, bool kLog>
const void* SixteenBitMatrix() {
  if constexpr (sizeof(In) == 2) {
    return reinterpret_cast<const void*>(&TinyMatrixKernel<In, kColumns, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In, int kColumns, bool kLog>
const void* NarrowMatrix() {
  if constexpr (HasNarrowKernel(kColumns, sizeof(In), kLog)) {
    return reinterpret_cast<const void*>(&NarrowMatrixKernel<In, kColumns, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In>
const MatrixKernels& MatrixKernelsOf() {
  constexpr int kMost = SmallSlots(sizeof(In));
#define SOFTMAX_VARIANTS(kernel, number)                                       \
  {                                                                            \
    {kernel<In, number, false, false>(), kernel<In, number, false, true>()},   \
        {kernel<In, number, true, false>(), kernel<In, number, true, true>()}, \
  }
#define SOFTMAX_TINY(vectors) \
  { TinyMatrix<In, vectors, false>(), TinyMatrix<In, vectors, true>() }
#define SOFTMAX_NARROW(columns) \
  { NarrowMatrix<In, columns, false>(), NarrowMatrix<In, columns, true>() }
  static const MatrixKernels kernels{
      {SOFTMAX_VARIANTS(SmallMatrix, 1), SOFTMAX_VARIANTS(SmallMatrix, 2), SOFTMAX_VARIANTS(SmallMatrix, 3),
       SOFTMAX_VARIANTS(SmallMatrix, 4), SOFTMAX_VARIANTS(SmallMatrix, std::min(6, kMost)),
       SOFTMAX_VARIANTS(SmallMatrix, std::min(6, kMost)), SOFTMAX_VARIANTS(SmallMatrix, kMost),
       SOFTMAX_VARIANTS(SmallMatrix, kMost)},
      {SOFTMAX_VARIANTS(SingleMatrix, 1), SOFTMAX_VARIANTS(SingleMatrix, 2)},
      {{SplitMatrix<In, false, false>(), SplitMatrix<In, false, true>()},
       {SplitMatrix<In, true, false>(), SplitMatrix<In, true, true>()}},
      {SOFTMAX_VARIANTS(LargeMatrix, 4),
       {{LargeMatrix<In, 8, false, false>(), LargeMatrix<In, 8, false, true>()}, {nullptr, nullptr}}},
      {{SliceMatrix<In, false, false>(), SliceMatrix<In, false, true>()},
       {SliceMatrix<In, true, false>(), SliceMatrix<In, true, true>()}},
      {{WideMatrix<In, false, false>(), WideMatrix<In, false, true>()},
       {WideMatrix<In, true, false>(), WideMatrix<In, true, true>()}},
      {SOFTMAX_TINY(1), SOFTMAX_TINY(2), SOFTMAX_TINY(3), SOFTMAX_TINY(4), SOFTMAX_TINY(5), SOFTMAX_TINY(6),
       SOFTMAX_TINY(7), SOFTMAX_TINY(8), SOFTMAX_TINY(9), SOFTMAX_TINY(10), SOFTMAX_TINY(11), SOFTMAX_TINY(12)},
      {SixteenBitMatrix<In, 12, false>(), SixteenBitMatrix<In, 12, true>()},
      {SOFTMAX_NARROW(1), SOFTMAX_NARROW(2), SOFTMAX_NARROW(3), SOFTMAX_NARROW(4), SOFTMAX_NARROW(5), SOFTMAX_NARROW(6),
       SOFTMAX_NARROW(7), SOFTMAX_NARROW(8)},
      {ChunkMatrix<In, false>(), ChunkMatrix<In, true>()},
      {{FewMatrix<In, false, false>(), FewMatrix<In, false, true>()},
       {FewMatrix<In, true, false>(), FewMatrix<In, true, true>()}}};
#undef SOFTMAX_NARROW
#undef SOFTMAX_TINY
#undef SOFTMAX_VARIANTS
  return kernels;
}

}  // namespace softmax::kernels::cuda
