#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/core/work.h"
#include "kernels/cuda/device.h"

// How segments of contiguous rows are run that no other room takes. None of it shows in the results (core/work.h).
namespace softmax::kernels::cuda {

constexpr int kInlineSegments = 36;  // with these the parameters stay below 4 KB, which every driver takes

struct GeneralSegment : Segment {
  std::int64_t first_item;  // of all segments'
};

// A team, one block or a cluster, takes items of the segments in their order: of rows of several chunks those that its
// warps have side by side, of small rows as many as its lanes.
struct GeneralParams {
  const GeneralSegment* table;  // mapped host memory; nullptr: `segments` below
  std::int64_t items;
  std::int64_t items_per_team;
  std::uint32_t segment_count;
  std::int32_t cluster_blocks;
  std::int32_t kept_chunks;  // for each warp, in shared memory
  DataType output_type;
  Completion completion;
  GeneralSegment segments[kInlineSegments];
};
static_assert(sizeof(GeneralParams) <= 4096, "the classic limit of kernel parameters");

struct GeneralPlan {
  GeneralParams params;
  std::int64_t blocks;
  int dynamic_bytes;
};

// Two tables of statistics, in turn, as blocks may read one while others write the next row's.
constexpr int kGeneralTableBytes = 2 * kFlatChunks * 16;
// Warps that share a row of so many chunks, of a team's `members`.
constexpr int RowWarps(std::int64_t chunks, int members) {
  int warps = 1;
  while (warps < members && warps < chunks) warps *= 2;
  return warps;
}

// Segments must have passed CheckSegment. `scratch` has the table where there are more than kInlineSegments.
void PlanGeneral(DataType input_type, DataType output_type, const Segment* segments, std::int64_t count, void* scratch,
                 const Completion& completion, const Device& device, GeneralPlan* plan);

}  // namespace softmax::kernels::cuda
