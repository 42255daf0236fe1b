#pragma once

#include <utility>

#include "kernels/cuda/strips/lanes.cuh"

// The kernels of strips/lanes.cuh, named for one type.
namespace softmax::kernels::cuda {

template <typename In, int kSlots, bool kLog, bool kWhole>
const void* ColumnLanesKernelOf() {
  if constexpr (HasLanes(kSlots, sizeof(In))) {
    return reinterpret_cast<const void*>(&ColumnLanesKernel<In, kSlots, kLog, kWhole>);
  } else {
    return nullptr;
  }
}

template <typename In, bool kLog, bool kWhole>
const void* ColumnChunksKernelOf() {
  if constexpr (kWhole || HasStripChunks(sizeof(In))) {
    return reinterpret_cast<const void*>(&ColumnChunksKernel<In, kLog, kWhole>);
  } else {
    return nullptr;
  }
}

template <typename In, bool kWhole, int... kSlots>
ColumnTileKernels ColumnTileKernelsOf(std::integer_sequence<int, kSlots...>) {
  return {
      {{ColumnChunksKernelOf<In, false, kWhole>(), ColumnChunksKernelOf<In, true, kWhole>()},
       {ColumnLanesKernelOf<In, kSlots + 1, false, kWhole>(), ColumnLanesKernelOf<In, kSlots + 1, true, kWhole>()}...}};
}
template <typename In>
const ColumnLanesKernels& ColumnLanesKernelsOf() {
  using Slots = std::make_integer_sequence<int, kMostSlots>;
  static const ColumnLanesKernels kernels = {ColumnTileKernelsOf<In, false>(Slots()),
                                             ColumnTileKernelsOf<In, true>(Slots())};
  return kernels;
}

}  // namespace softmax::kernels::cuda
