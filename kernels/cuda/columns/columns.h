#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/core/work.h"

// One segment over another axis (inner > 1). A thread takes units of neighbouring inner elements: of few columns all
// (columns/few.cuh), of others those of some lanes of the summation tree (columns/lanes.cuh), a chunk of large rows at
// a time. None of it shows in the bits.
namespace softmax::kernels::cuda {

// Vectors of columns that a thread of columns/lanes.cuh holds: so many slots for each of its lanes of the tree, of
// which there are two, or four of 32 bits where the slots allow it.
constexpr int HeldVectors(int element_bytes) { return element_bytes == 4 ? 16 : 8; }
// Of its shared memory, for each element of a unit: two numbers a thread. Large rows have statistics behind them.
constexpr int LanesSharedBytes(int element_bytes) { return kBlockThreads * (element_bytes == 8 ? 16 : 12); }
constexpr int kLanesEntryBytes = 16;

// Rows of at most so many columns may be held by a thread each, or several of them.
constexpr int kFewColumns[] = {8, 32, 64};
constexpr int kFewSizes = 3;
// Bytes of a thread's unit where everything is aligned, as it has to be for more than 32 columns.
constexpr int FewUnitBytes(int columns, int element_bytes) {
  return columns <= 8 ? 16 : columns <= 32 && element_bytes == 4 ? 8 : 4;
}
// Threads of a block of theirs: places are free soon again.
constexpr int kFewThreads = 64;

struct ColumnParams {
  DeviceSegment segment;
  ScaleParts<double> scale_double;
  ScaleParts<float> scale_float;
  Completion completion;
  std::uint32_t zero;        // which the compiler does not know; see ColumnFew
  std::int32_t units;        // of an outer block
  std::int32_t ahead_bytes;  // of the input, which each block asks for before its turn: AskAhead()
  DataType output_type;
  // Of rows of more than few columns: the units side by side in a block, the threads that share each one's columns and
  // how many lanes of the tree they have; of large rows the chunks, the statistics that a block keeps of each, and the
  // blocks of the cluster that shares it.
  std::int32_t width;  // units of an outer block, with room beside them
  std::int32_t side_log;
  std::int32_t shares;
  std::int32_t lanes;
  std::int32_t chunks;
  std::int32_t entries;
  std::int32_t cluster_blocks;
};

}  // namespace softmax::kernels::cuda
