#include "tests/kernels/plans/room.h"

#include <cstdint>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/large_rows/wide_plan.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::testing {
namespace {

int shared_bytes_of_model = 0;

std::string TinyRoom(const cuda::MatrixPlan& plan, int bytes) {
  if (plan.slots > 0) return "tile";
  if (cuda::HasNarrow(plan.params.cols, bytes)) return "narrow";
  return "tiny";
}

std::string BulkRoom(const cuda::MatrixPlan& plan) {
  if (plan.slots > 0) return "bulk pair";
  return plan.params.cluster_blocks > 1 ? "bulk cluster" : "bulk";
}

std::string MatrixRoom(const cuda::MatrixPlan& plan, int bytes) {
  using cuda::MatrixKind;
  switch (plan.kind) {
    case MatrixKind::kTiny:
      return TinyRoom(plan, bytes);
    case MatrixKind::kSmall:
      return "small";
    case MatrixKind::kShare:
      return "share";
    case MatrixKind::kSingle:
      return "single";
    case MatrixKind::kSplit:
      return "split";
    case MatrixKind::kChunk:
      return plan.params.cluster_blocks > 1 ? "cluster" : "chunk";
    case MatrixKind::kFew:
      return plan.params.cluster_blocks > 1 ? "few" : "few grid";
    case MatrixKind::kLarge:
      return "large";
    case MatrixKind::kWide:
      return plan.slots == cuda::kRingSlots ? "ring" : "wide";
    case MatrixKind::kSlice:
      return "slice";
    case MatrixKind::kBulk:
      return BulkRoom(plan);
    case MatrixKind::kNone:
      break;
  }
  return "general";
}

std::string ColumnRoom(const cuda::ColumnPlan& plan) {
  if (!plan.possible) return "general";
  if (plan.ring) return "column ring";
  if (plan.stream) return "stream";
  if (plan.lanes) return plan.slots > 0 ? "lanes" : "chunks";
  if (plan.few >= 0) return "column few";
  return "column matrix";
}

}  // namespace

int SharedBytesOfModel() { return shared_bytes_of_model; }

std::string RoomOf(const Shape& shape, const cuda::Device& device) {
  shared_bytes_of_model = device.shared_bytes;
  std::uint32_t workspace = 0;  // only its address is looked at
  const Completion completion{nullptr, 0, &workspace};
  Segment s;
  s.input = reinterpret_cast<const void*>(std::uintptr_t{1} << 32);
  s.output = reinterpret_cast<void*>(std::uintptr_t{2} << 40);
  s.outer = shape.outer;
  s.cols = shape.cols;
  s.inner = shape.inner;
  s.input_stride = s.output_stride = shape.cols * shape.inner;
  s.operation = shape.operation;
  if (shape.inner > 1) {
    return ColumnRoom(cuda::PlanColumns(shape.input_type, shape.output_type, s, completion, device));
  }
  const cuda::MatrixPlan plan = cuda::PlanMatrix(shape.input_type, shape.output_type, s, completion, device);
  if (plan.mixed && plan.kind == cuda::MatrixKind::kNone) {
    cuda::BatchPlan batch;
    cuda::PlanBatch(shape.input_type, shape.output_type, &s, 1, nullptr, completion, device, Placement::kDevice,
                    &batch);
    if (batch.possible) return "batch";
  }
  return MatrixRoom(plan, static_cast<int>(SizeOf(shape.input_type)));
}

}  // namespace softmax::kernels::testing
