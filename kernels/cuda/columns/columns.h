#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/core/work.h"

// One segment over another axis (inner > 1). A block, or a cluster, takes a strip: some
// neighbouring inner elements with all their columns. The strip's columns are cut into parts, which is what the
// summation tree of core/work.h reduces at once: a small row as a whole, or one chunk of a larger one. Parts pass
// through shared memory in steps, and as many as fit stay there until the results are written. None of it shows in the
// bits.
namespace softmax::kernels::cuda {

constexpr int kMaxStripRows = 256;   // rows that a block reduces at one time
constexpr int kMaxStripWidth = 256;  // of them in one outer block: a thread each
constexpr int kStripRowBytes = 56;   // that a block keeps of each, at most, and
constexpr int kStripTermBytes = 16;  // beside them
constexpr int kFoldLanes = 32;       // accumulators of rows that are not folded in groups

// What is known of a launch when its kernel is compiled.
enum class ColumnMode {
  kSmall,  // a part is a whole row
  kSteps,  // chunks, step by step
};

// Of a block: as many as the registers allow for one block a multiprocessor, of small rows for two; kBlockThreads each
// where there are three.
constexpr int MostColumnThreads(ColumnMode mode, int element_bytes) {
  if (element_bytes == 8) return mode == ColumnMode::kSteps ? 512 : kBlockThreads;
  return mode == ColumnMode::kSteps ? 768 : 384;
}
// Neighbouring inner elements that a thread reduces together where everything is aligned: as wide as leaves work for
// all threads.
constexpr int ColumnReduced(int element_bytes) { return 8 / element_bytes; }

// Rows of at most so many columns may be held by a thread each, or several of them.
constexpr int kFewColumns[] = {8, 32, 64};
constexpr int kFewSizes = 3;
// Bytes of a thread's unit where everything is aligned, as it has to be for more than 32 columns.
constexpr int FewUnitBytes(int columns, int element_bytes) {
  return columns <= 8 ? 16 : columns <= 32 && element_bytes == 4 ? 8 : 4;
}
// Threads of a block of theirs: places are free soon again.
constexpr int kFewThreads = 64;

// n / d for n * d < 2^32.
struct Divisor {
  std::uint32_t value;
  std::uint32_t magic;  // 0: it is 1

  static Divisor Of(int d) { return {static_cast<std::uint32_t>(d), 0xffffffffu / static_cast<std::uint32_t>(d) + 1}; }
};

// Parts are reduced in tasks of one warp: units side by side, times as many lanes of the tree as
// fit, times as many parts as fit. Lanes that do not fit go to further tasks.
struct ColumnTasks {
  std::int32_t lanes;  // of the tree, per row
  std::int32_t side_log;
  std::int32_t warp_lanes_log;  // lanes of the tree in a task
  std::int32_t lane_tasks_log;  // tasks for all lanes
  std::int32_t warp_parts_log;  // parts in a task
  Divisor groups;               // tasks side by side over the strip
  std::int32_t spread_shift;    // see ColumnMatrix::Spread
  std::int32_t spread_scale;
};

struct ColumnParams {
  DeviceSegment segment;
  ScaleParts<double> scale_double;
  ScaleParts<float> scale_float;
  double log_pre;  // of scale_float, for log-softmax in double: see LogScale
  double log_factor;
  Completion completion;
  ColumnTasks tasks;
  Divisor units;               // of a full strip
  Divisor line_vectors;        // aligned 16-byte vectors that a column of a strip may touch
  Divisor rows;                // of a full strip
  Divisor part_columns;        // of a part that is full
  std::uint32_t zero;          // which the compiler does not know; see ColumnFew
  std::int32_t strips;         // per outer block
  std::int32_t strip;          // inner elements per strip
  std::int32_t chunks;         // per row
  std::int32_t step_parts;     // outer blocks (small rows) or chunks
  std::int32_t stages;         // steps that shared memory holds
  std::int32_t stage_bytes;    // as they lie there,
  std::int32_t part_bytes;     // from one part to the next
  std::int32_t pitch;          // and from one column to the next
  std::int32_t cluster_log;    // of the blocks that share a strip
  std::int32_t table_entries;  // statistics per row kept for the fold
  std::int32_t sums_offset;    // in shared memory, as all below
  std::int32_t task_maxima_offset;
  std::int32_t maxima_offset;
  std::int32_t table_offset;
  std::int32_t terms_offset;
  std::int32_t rows_offset;
  bool grouped;               // the chunks are folded in groups
  bool dense;                 // outer blocks follow each other without gaps
  std::int32_t ahead_bytes;   // of the input, which each block asks for before its turn: AskAhead()
  std::int32_t output_bytes;  // of an element
  DataType output_type;
};

}  // namespace softmax::kernels::cuda
