#include "tests/kernels/plans/room.h"

#include <cstdint>

#include "kernels/cuda/plan/batch.h"
#include "kernels/cuda/plan/columns.h"
#include "kernels/cuda/plan/rows.h"

namespace softmax::kernels::testing {
namespace {

// As docs/kernels.md calls them.
std::string NameOf(cuda::Room room, int size) {
  using cuda::Room;
  switch (room) {
    case Room::kSmall:
      return "small";
    case Room::kSingle:
      return "single";
    case Room::kSplit:
      return "split";
    case Room::kTile:
      return "tile";
    case Room::kChunk:
      return "chunk";
    case Room::kCluster:
      return "cluster";
    case Room::kFew:
      return size == 0 ? "few" : "few grid";
    case Room::kLarge:
      return "large";
    case Room::kSlice:
      return "slice";
    case Room::kBulk:
      return "bulk";
    case Room::kParts:
      return "parts";
    case Room::kWide:
      return "wide";
    case Room::kColumns:
      return "columns";
    case Room::kColumnFew:
      return "column few";
    default:
      return "general";
  }
}

}  // namespace

Segment SegmentOf(const Shape& shape) {
  Segment s;
  s.input = reinterpret_cast<const void*>(std::uintptr_t{1} << 32);
  s.output = reinterpret_cast<void*>(std::uintptr_t{2} << 40);
  s.outer = shape.outer;
  s.cols = shape.cols;
  s.inner = shape.inner;
  s.input_stride = s.output_stride = shape.cols * shape.inner;
  s.operation = shape.operation;
  return s;
}

std::string RoomOf(const Shape& shape, const cuda::Device& device) {
  std::uint32_t workspace = 0;  // only its address is looked at
  const Completion completion{nullptr, 0, &workspace};
  const Segment s = SegmentOf(shape);
  if (shape.inner > 1) {
    const cuda::ColumnPlan plan = cuda::PlanColumns(shape.input_type, shape.output_type, s, completion, device);
    return plan.possible ? NameOf(plan.room(), plan.size()) : "general";
  }
  const cuda::MatrixPlan plan = cuda::PlanMatrix(shape.input_type, shape.output_type, s, completion, device);
  if (plan.mixed && plan.room == cuda::Room::kNone) {
    cuda::BatchPlan batch;
    cuda::PlanBatch(shape.input_type, shape.output_type, &s, 1, nullptr, completion, device, Placement::kDevice,
                    &batch);
    if (batch.possible) return "batch";
  }
  return NameOf(plan.room, plan.size);
}

}  // namespace softmax::kernels::testing
