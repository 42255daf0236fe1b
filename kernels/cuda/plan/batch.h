#pragma once

#include <cstddef>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/device.h"

// How several segments of contiguous rows are sorted and cut into units for one launch (batch/batch.h).
namespace softmax::kernels::cuda {

struct BatchPlan {
  bool possible = false;
  bool skew = false;  // some rows do not start on 16-byte boundaries
  int blocks = 0;
  int dynamic_bytes = 0;
  BatchParams params;
};

// Chunks that a block of the device holds: kUnitChunks where its shared memory has room for them.
int BatchUnitChunks(const Device& device);

// Bytes of scratch that PlanBatch may need for so many segments that are not empty, with so many rows in all.
std::size_t BatchScratchBytes(std::int64_t segments, std::int64_t rows);

// Not possible: some rows need the general kernel. Segments must have passed CheckSegment; `scratch` is used when the
// parameters do not hold the tables.
void PlanBatch(DataType type, DataType output_type, const Segment* segments, std::int64_t count, void* scratch,
               const Completion& completion, const Device& device, Placement placement, BatchPlan* plan);

}  // namespace softmax::kernels::cuda
