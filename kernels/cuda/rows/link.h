#pragma once

#include "kernels/cuda/rows/matrix.h"

// One matrix in the host's memory, beyond a link whose directions work at the same time only where reads and writes are
// asked for at the same time: few blocks stay, and their warps or blocks, each at its own pace, take one row or a few
// after the other, so that some read while others write.
namespace softmax::kernels::cuda {

constexpr int kLinkThreads = 32;  // of a block that takes small rows
// Rows of at most so many columns.
constexpr std::int64_t LinkColumns(int element_bytes) {
  constexpr std::int64_t kChunks = kWideThreads / 32 * 4;
  return kChunks * ChunkColumns(element_bytes);
}

// Changes the plan of a matrix to one for few blocks and returns its kernel; nullptr: there is none for such rows, and
// the plan is as before. `shared`: other launches are to have the link, too.
const void* PlanLink(DataType type, const Device& device, bool shared, MatrixPlan* plan);

// One input type's kernels. The last two indices are `skew` and `log`.
struct LinkKernels {
  static constexpr int kSizes = 3;  // of 2, 4 and 8 vectors a lane; 8 of 32 bits only
  const void* small[kSizes][2][2];  // groups of lanes take rows
  const void* large[2][2];          // blocks take rows of several chunks

  const void* const* begin() const { return &small[0][0][0]; }
  const void* const* end() const { return begin() + (kSizes + 1) * 4; }
};
static_assert(sizeof(LinkKernels) == (LinkKernels::kSizes + 1) * 4 * sizeof(void*), "iterated as an array");
const LinkKernels& LinkKernelsFor(DataType type);
const LinkKernels& Float32LinkKernels();
const LinkKernels& Float16LinkKernels();
const LinkKernels& BFloat16LinkKernels();
const LinkKernels& Float64LinkKernels();

}  // namespace softmax::kernels::cuda
