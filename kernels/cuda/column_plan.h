#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/cuda/scale.h"
#include "kernels/cuda/work.h"

// One segment over another axis (inner > 1), input and output of one type. A block, or a cluster, takes a strip: some
// neighbouring inner elements with all their columns. The strip's columns are cut into parts, which is what the
// summation tree of work.h reduces at once: a small row as a whole, or one chunk of a larger one. Parts pass through
// shared memory in steps, and as many as fit stay there until the results are written. None of it shows in the bits.
namespace softmax::kernels::cuda {

constexpr int kMaxStripRows = 256;   // rows that a block reduces at one time
constexpr int kMaxStripWidth = 256;  // of them in one outer block: a thread each
constexpr int kStripRowBytes = 56;   // that a block keeps of each, at most
constexpr int kFoldLanes = 32;       // accumulators of rows that are not folded in groups

// Parts are reduced in tasks of one warp: units (elements or 16-byte vectors) side by side, times as many lanes of the
// tree as fit, times as many parts as fit. Lanes that do not fit go to further tasks.
struct ColumnTasks {
  std::int32_t lanes;  // of the tree, per row
  std::int32_t slots;  // of the tree, per lane
  std::int32_t side_log;
  std::int32_t warp_lanes_log;  // lanes of the tree in a task
  std::int32_t lane_tasks_log;  // tasks for all lanes
  std::int32_t warp_parts_log;  // parts in a task
  std::int32_t groups;          // tasks side by side over the strip
  std::int32_t spread_shift;    // see ColumnMatrix::Spread
  std::int32_t spread_scale;
};

struct ColumnParams {
  DeviceSegment segment;
  ScaleParts<double> scale_double;
  ScaleParts<float> scale_float;
  Completion completion;
  ColumnTasks tasks;
  std::int64_t strips;          // per outer block
  std::int32_t strip;           // inner elements per strip
  std::int32_t step_parts;      // outer blocks (small rows) or chunks
  std::int32_t stages;          // steps that shared memory holds
  std::int32_t stage_bytes;     // as they lie there,
  std::int32_t part_bytes;      // from one part to the next
  std::int32_t pitch;           // and from one column to the next
  std::int32_t cluster_blocks;  // that share a strip
  std::int32_t table_entries;   // statistics per row kept for the fold
  std::int32_t partial_offset;  // in shared memory, as all below
  std::int32_t maxima_offset;
  std::int32_t table_offset;
  std::int32_t rows_offset;
  bool small;    // a part is a whole row
  bool grouped;  // the chunks are folded in groups
  bool dense;    // outer blocks follow each other without gaps
  bool alike;    // input and output miss 16-byte boundaries by the same distance
};

struct ColumnPlan {
  bool possible = false;
  bool vectors = false;  // units are 16-byte vectors
  std::int64_t blocks = 0;
  int dynamic_bytes = 0;
  ColumnParams params;
};

// What a plan is told rather than finds out, for measurements; 0: it finds out.
struct ColumnChoice {
  int strip = 0;
  int cluster_blocks = 0;
  int tile_bytes = 0;  // of shared memory per block
};

ColumnPlan PlanColumns(DataType type, const Segment& segment, const Completion& completion, const Device& device,
                       const ColumnChoice& choice = {});

// One type's kernels: [0] for single elements, [1] for 16-byte vectors.
struct ColumnKernels {
  const void* kernels[2];
};
const ColumnKernels& ColumnKernelsFor(DataType type);
const ColumnKernels& Float32ColumnKernels();
const ColumnKernels& Float16ColumnKernels();
const ColumnKernels& BFloat16ColumnKernels();
const ColumnKernels& Float64ColumnKernels();

}  // namespace softmax::kernels::cuda
