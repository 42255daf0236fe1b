#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/device.h"

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
  kKept,   // chunks, all of a block's in one step
  kSteps,  // chunks, step by step, by larger blocks
};
constexpr int kColumnModes = 3;
// In what units a thread takes a strip: one element, two neighbouring ones, or a 16-byte vector of a column.
constexpr int kColumnUnits = 3;

// Of a block. As many as the registers allow for one block a multiprocessor where it has much shared memory, for two
// where it has half of it; kBlockThreads each where there are three.
constexpr int MostColumnThreads(ColumnMode mode, int element_bytes) {
  if (element_bytes == 8) return mode == ColumnMode::kSteps ? 512 : kBlockThreads;
  return mode == ColumnMode::kSteps ? 768 : 384;
}
// Neighbouring inner elements that a thread reduces together where everything is aligned: as wide as leaves work for
// all threads.
constexpr int ColumnReduced(ColumnMode mode, int element_bytes) {
  return element_bytes == 4 && mode == ColumnMode::kKept ? 4 : 8 / element_bytes;
}

// Blocks that may share a small row; see columns/split.cuh.
constexpr int kSplitBlocks = 2;
// Columns that the block `rank` has of a row then.
constexpr int SplitColumns(int cols, int vector, int rank) {
  const int vectors = (cols + vector - 1) / vector;
  const int missing = (vectors - 1) % kSplitBlocks == rank ? vectors * vector - cols : 0;
  return (vectors - rank + kSplitBlocks - 1) / kSplitBlocks * vector - missing;
}

// Rows of at most so many columns may be held by a thread each, or several of them.
constexpr int kFewColumns[] = {8, 16, 32, 64};
constexpr int kFewSizes = 4;
constexpr int kMixedFewSizes = 3;  // with results of another type
// Bytes of a thread's unit where everything is aligned, as it has to be for more than 32 columns; 0: they do not fit.
constexpr int FewUnitBytes(int columns, int element_bytes) {
  if (columns <= 16) return columns <= 8 ? 16 : 8;
  if (columns <= 32) return element_bytes == 2 ? 4 : element_bytes == 4 ? 8 : 0;
  return element_bytes <= 4 ? 4 : 0;
}
// Threads of a block of theirs, but for doubles: places are free soon again.
constexpr int kFewThreads = 64;

// The kernels of strips/lanes.cuh: threads of a block and blocks of a multiprocessor at most, and slots of a lane.
constexpr int kLanesThreads = 384;
constexpr int kLanesBlocks = 2;
// The same for rows of several chunks: log-softmax needs more registers.
constexpr int ChunksThreads(bool log) { return log ? 320 : 384; }
// Whether they may be strips of wider outer blocks.
constexpr bool HasStripChunks(int element_bytes) { return element_bytes == 4; }
constexpr int kFewestSlots = 2;
constexpr int kMostSlots = 8;
constexpr bool HasLanes(int slots, int element_bytes) {
  return element_bytes < 8 && slots >= kFewestSlots && slots <= SmallSlots(element_bytes);
}

// Those of strips/stream.cuh and strips/pairs.cuh.
constexpr int kStreamThreads = 512;
constexpr int kStreamWarps = kStreamThreads / 32;
constexpr int kStreamWidth = 32;                               // rows of a strip,
constexpr int kPairsWidth = 64;                                // of 16-bit elements
constexpr int kStreamColumns = 1024;                           // of a block, at most
constexpr int kStreamPitch = kStreamWidth * 4 + kVectorBytes;  // from one column to the next in shared memory
constexpr int kStreamBytes = 16 * 1024;                        // of shared memory beside them
// And for each chunk of shared rows.
constexpr int StreamTableBytes(int element_bytes) { return 2 * (element_bytes == 2 ? kPairsWidth : kStreamWidth) * 8; }
constexpr int kSectorBytes = 32;

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
  std::int32_t strip;          // inner elements per strip,
  std::int32_t strip_step;     // and from one strip to the next: fewer where strips overlap
  std::int32_t chunks;         // per row
  std::int32_t step_parts;     // outer blocks (small rows) or chunks
  std::int32_t stages;         // steps that shared memory holds
  std::int32_t stage_bytes;    // as they lie there,
  std::int32_t part_bytes;     // from one part to the next
  std::int32_t pitch;          // and from one column to the next
  std::int32_t cluster_log;    // of the blocks that share a strip; small rows: 1 if they are split
  std::int32_t table_entries;  // statistics per row kept for the fold
  std::int32_t sums_offset;    // in shared memory, as all below
  std::int32_t task_maxima_offset;
  std::int32_t maxima_offset;
  std::int32_t table_offset;
  std::int32_t terms_offset;
  std::int32_t rows_offset;
  std::int32_t cluster_blocks;  // of strips/lanes.cuh that share rows
  std::int32_t tail_places;     // there, places of a lane's last slot that some lane has
  std::int32_t read_width;      // of strips/pairs.cuh: rows that a block reads
  bool grouped;                 // the chunks are folded in groups
  bool dense;                   // outer blocks follow each other without gaps
  bool early;                   // see columns/early.cuh
  std::int32_t ahead_bytes;     // of the input, which each block asks for before its turn: AskAhead(),
  std::int32_t later_blocks;    // and of strips/lanes.cuh for others: AskForLater()
  std::int32_t apart_blocks;    // so many blocks begin side by side,
  std::int32_t apart_cycles;    // and the next ones so much later; 0: all at once. See BeginApart().
  std::int32_t output_bytes;    // of an element, where results are of another type than the input,
  DataType output_type;         // which is this one
};

// Of strips/ring.cuh. What the grid's table knows as rows are strips here (blocks/grid_table.cuh), and what leaves one
// a unit: a chunk of it.
struct ColumnRingParams {
  DeviceSegment segment;
  ScaleParts<float> scale;
  double log_pre;  // as in ColumnParams
  double log_factor;
  Completion completion;
  std::int64_t rows;  // strips
  std::int32_t table_rows;
  std::int32_t row_blocks;
  std::int32_t strips;  // per outer block
  std::int32_t chunks;  // per row
  std::uint32_t zero;   // as in ColumnParams
};

struct ColumnPlan {
  bool possible = false;
  bool mixed = false;    // the results are of another type
  bool vectors = false;  // units are 16-byte vectors,
  bool pairs = false;    // or two 16-bit elements
  ColumnMode mode = ColumnMode::kSmall;
  bool lanes = false;       // strips/lanes.cuh takes the rows,
  int slots = 0;            // with so many slots a lane (0: several chunks),
  bool whole = false;       // and whole outer blocks
  bool stream = false;      // strips/stream.cuh takes them
  bool ring = false;        // strips/ring.cuh takes them, with parameters of their own, launched cooperatively,
  bool ring_wide = false;   // in wide strips,
  bool ring_words = false;  // in words
  int few = -1;  // which of kFewColumns, if any: such plans have no other parameters than segment, scales and strips
  std::int64_t blocks = 0;
  int threads = kBlockThreads;
  int cluster_blocks = 1;
  int dynamic_bytes = 0;
  ColumnParams params;
  ColumnRingParams ring_params;
};

ColumnPlan PlanColumns(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                       const Device& device);

// Lets the blocks of a plan ask for their input before their turn, as PlanAhead() of rows/matrix.h does.
void PlanAhead(DataType type, ColumnPlan* plan);

// One type's kernels: for each mode that for single elements, that for pairs (nullptr where they are not 16-bit ones)
// and that for 16-byte vectors; for each of kFewColumns those for softmax and then those for log-softmax, or nullptr;
// likewise those whose results are of another type, which pairs and doubles have not, nor the most of few columns.
struct ColumnKernels {
  const void* kernels[kColumnUnits * kColumnModes];
  const void* few[4 * kFewSizes];
  const void* mixed[2 * kColumnModes];
  const void* mixed_few[4 * kMixedFewSizes];
};
const ColumnKernels& ColumnKernelsFor(DataType type);
const void* ColumnKernelOf(DataType type, const ColumnPlan& plan);
const ColumnKernels& Float32ColumnKernels();
const ColumnKernels& Float16ColumnKernels();
const ColumnKernels& BFloat16ColumnKernels();
const ColumnKernels& Float64ColumnKernels();

// Those of strips/lanes.cuh, by the slots of a small row (0: several chunks) and whether they are for log-softmax;
// nullptr where there is none.
struct ColumnTileKernels {
  const void* kernels[kMostSlots + 1][2];
};
// By whether tiles are whole outer blocks, or neighbouring columns of one.
struct ColumnLanesKernels {
  ColumnTileKernels tiles[2];

  const void* const* begin() const { return &tiles[0].kernels[0][0]; }
  const void* const* end() const { return begin() + sizeof(*this) / sizeof(void*); }
};
const ColumnLanesKernels& ColumnLanesKernelsFor(DataType type);
const ColumnLanesKernels& Float32ColumnLanesKernels();
const ColumnLanesKernels& Float16ColumnLanesKernels();
const ColumnLanesKernels& BFloat16ColumnLanesKernels();

// Those of strips/stream.cuh, for 32-bit elements, and of strips/pairs.cuh, for 16 bits: by whether rows have several
// chunks, and whether they are for log-softmax; of 32 bits none of both.
struct ColumnStreamKernels {
  const void* kernels[2][2];

  const void* const* begin() const { return &kernels[0][0]; }
  const void* const* end() const { return begin() + sizeof(*this) / sizeof(void*); }
};
const ColumnStreamKernels& StreamKernelsFor(DataType type);
const ColumnStreamKernels& Float32StreamKernels();
const ColumnStreamKernels& Float16StreamKernels();
const ColumnStreamKernels& BFloat16StreamKernels();

}  // namespace softmax::kernels::cuda
