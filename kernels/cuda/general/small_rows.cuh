#pragma once

#include "kernels/cuda/core/part.cuh"

// Small rows: a group of 1 to 32 lanes per row, everything in registers, no barrier. An item is what the
// block's warps take at one time: kBlockThreads / lanes rows.
namespace softmax::kernels::cuda {

template <typename In, int kSlots>
__device__ __forceinline__ void RunSmallRowsSlots(const DeviceSegment& segment, DataType output_type, std::int64_t item,
                                                  const Scale<ComputeOf<In>>& scale) {
  const int lanes_per_row = static_cast<int>(segment.lanes);
  const Lanes lanes{static_cast<int>(threadIdx.x) & (lanes_per_row - 1), lanes_per_row};
  std::int64_t row = (item * kBlockThreads + threadIdx.x) / lanes_per_row;
  // Lanes without a row go along with an empty one: the shuffles need whole warps.
  const bool active = row < segment.outer;
  if (!active) row = 0;
  const int cols = active ? static_cast<int>(segment.cols) : 0;
  const int valid = active ? static_cast<int>(ValidLength(segment, row)) : 0;
  const In* input = static_cast<const In*>(segment.input) + row * segment.input_stride;
  uint4 v[kSlots];
  LoadPart(input, valid, Around{false, false}, segment.input_wide != 0, lanes, v);
  const auto stats = FirstStats<In, kSlots, kSlots <= 2>(segment.log != 0, v, valid, valid, lanes, scale);
#pragma unroll
  for (uint4& vector : v) Opaque(vector);  // its elements would take more registers than it does
  const Normalizer<ComputeOf<In>> normalize(scale, stats, segment.log != 0, valid == 0);
  ForAnyType(output_type, [&](auto* type) {
    auto* output = static_cast<decltype(type)>(segment.output) + row * segment.output_stride;
    WritePart<In>(output, cols, valid, segment.output_wide != 0, lanes, v, normalize);
  });
}

template <typename In>
__device__ __forceinline__ void RunSmallRows(const DeviceSegment& segment, DataType output_type, std::int64_t item,
                                             const Scale<ComputeOf<In>>& scale) {
  constexpr int kSlots = SmallSlots(sizeof(In));
  // Empty slots add exact zeros to the sums, so the number compiled for does not show in the bits.
  const int per_slot = static_cast<int>(segment.lanes) * Element<In>::kVector;
  if (segment.cols <= 2 * per_slot) {
    RunSmallRowsSlots<In, 2>(segment, output_type, item, scale);
  } else if (kSlots == 4 || segment.cols <= 4 * per_slot) {
    RunSmallRowsSlots<In, 4>(segment, output_type, item, scale);
  } else {
    RunSmallRowsSlots<In, kSlots>(segment, output_type, item, scale);
  }
}

}  // namespace softmax::kernels::cuda
