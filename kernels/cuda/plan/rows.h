#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/rows/matrix.h"

// Which room runs contiguous rows, and how: a table of rules (plan/rows.cc), each with the geometry of its room. The
// plan is a pure function of shape, alignment and device, and never shows in the results.
namespace softmax::kernels::cuda {

struct MatrixPlan {
  Room room = Room::kNone;
  int size = 0;        // of the room's kernels
  DataType type;       // of the input
  bool mixed = false;  // the results are of another type
  bool skew = false;   // rows do not start on 16-byte boundaries, but input and output miss them alike
  bool lines = false;  // rows start on 128-byte lines
  int threads = kMatrixThreads;
  std::int64_t blocks = 0;
  int dynamic_bytes = 0;
  MatrixParams params = {};

  int form() const { return FormOf(skew, params.log, mixed); }
  int bytes() const { return static_cast<int>(SizeOf(type)); }
  bool is_cooperative() const { return room == Room::kWide || (room == Room::kFew && size == kFewGrid); }
};

MatrixPlan PlanMatrix(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                      const Device& device);

// Lets the blocks of a plan ask for their input before their turn (AskAhead()). Not for memory that others than the
// device may write until then, past its L2.
void PlanAhead(const Device& device, MatrixPlan* plan);

// The geometry of each room: fills in the parameters and the grid. False: the rows are of a size that its kernels do
// not hold, or that another room is faster with.
bool PlanTile(const Device& device, MatrixPlan* plan);
bool PlanChunk(const Device& device, MatrixPlan* plan);
bool PlanCluster(const Device& device, MatrixPlan* plan);
bool PlanFew(const Device& device, MatrixPlan* plan);
bool PlanFewGrid(const Device& device, MatrixPlan* plan);
bool PlanBulk(const Device& device, MatrixPlan* plan);
bool PlanParts(const Device& device, MatrixPlan* plan);
bool PlanSlice(const Device& device, MatrixPlan* plan);
bool PlanLarge(const Device& device, MatrixPlan* plan);
bool PlanWide(const Device& device, MatrixPlan* plan);

// Shared memory of which a multiprocessor has enough for so many blocks and no more, beside what is static.
inline int ShareOf(const Device& device, int blocks, int static_bytes = 0) {
  constexpr int kSystemBytes = 1024;
  const int share = (device.shared_bytes + kSystemBytes) / blocks - kSystemBytes - static_bytes;
  return share / kVectorBytes * kVectorBytes;
}
// Whether so many warps or blocks are at least, or at most, `each` for every multiprocessor.
inline bool AreMany(std::int64_t count, std::int64_t each, const Device& device) {
  return count >= each * device.multiprocessors;
}
inline bool AreFew(std::int64_t count, std::int64_t each, const Device& device) {
  return count <= each * device.multiprocessors;
}

// Vectors of shared memory that a slice of so many chunks takes.
inline int SliceVectors(int chunks) { return chunks * kChunkSlots * 32 + kEdgeVectors; }

}  // namespace softmax::kernels::cuda
