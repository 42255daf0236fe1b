#pragma once

#include <cstdint>

#include "kernels/cuda/core/work.h"
#include "kernels/cuda/device.h"

// Decides how a batch is run: which rows take a cluster, how large the grid is, how much shared memory a block gets.
// None of it shows in the results (see core/work.h).
namespace softmax::kernels::cuda {

struct Plan {
  std::int64_t segments = 0;  // that are not empty
  std::int64_t cluster_segments = 0;
  std::int64_t block_items = 0;
  std::int64_t cluster_items = 0;
  int cluster_blocks = 1;
  int grid_blocks = 0;
  int table_entries = 0;
  int stash_chunks = 0;
  int dynamic_bytes = 0;
};

// Segments must have passed CheckSegment.
Plan MakePlan(DataType input_type, const Segment* segments, std::int64_t count, const Device& device);

// Whether the segment's rows each take a cluster under this plan.
bool UsesCluster(DataType input_type, const Segment& segment, const Plan& plan);

// Rows, tiles or groups of rows that blocks (or clusters) take one at a time.
std::int64_t ItemsOf(DataType input_type, const Segment& segment);

DeviceSegment ToDevice(DataType input_type, DataType output_type, const Segment& segment, std::int64_t first_item);

}  // namespace softmax::kernels::cuda
