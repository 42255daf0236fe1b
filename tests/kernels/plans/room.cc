#include "tests/kernels/plans/room.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

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

// Only its address is looked at.
const Completion kCompletion{nullptr, 0, reinterpret_cast<std::uint32_t*>(std::uintptr_t{3} << 40)};

// FNV-1a. Of types without bytes that nobody sets.
class Checksum {
 public:
  template <typename... T>
  void Add(const T&... values) {
    (AddBytes(reinterpret_cast<const unsigned char*>(&values), sizeof(values)), ...);
  }
  std::uint64_t value() const { return value_; }

 private:
  void AddBytes(const unsigned char* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3ull;
  }
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

void AddBatch(const Shape& shape, const cuda::Device& device, Checksum* sum) {
  Segment segments[] = {SegmentOf(shape), SegmentOf(shape), SegmentOf(shape)};
  segments[1].scale = 2;
  segments[2].cols += 8;
  std::vector<std::byte> scratch(cuda::BatchScratchBytes(std::size(segments), 3 * shape.outer));
  cuda::BatchPlan plan = {};
  cuda::PlanBatch(shape.input_type, shape.output_type, segments, std::size(segments), scratch.data(), kCompletion,
                  device, Placement::kDevice, &plan);
  if (!plan.possible) return;
  const cuda::BatchParams& p = plan.params;
  sum->Add(plan.skew, plan.blocks, plan.dynamic_bytes, p.cluster_units, p.unit_count, p.cluster_blocks, p.warp_pieces,
           p.output_bytes, p.output_type, p.taken, p.scale_float[0], p.scale_float[1], p.scale_double[1]);
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
  const Segment s = SegmentOf(shape);
  if (shape.inner > 1) {
    const cuda::ColumnPlan plan = cuda::PlanColumns(shape.input_type, shape.output_type, s, kCompletion, device);
    return plan.possible ? NameOf(plan.room(), plan.size()) : "general";
  }
  const cuda::MatrixPlan plan = cuda::PlanMatrix(shape.input_type, shape.output_type, s, kCompletion, device);
  if (plan.mixed && plan.room == cuda::Room::kNone) {
    cuda::BatchPlan batch;
    cuda::PlanBatch(shape.input_type, shape.output_type, &s, 1, nullptr, kCompletion, device, Placement::kDevice,
                    &batch);
    if (batch.possible) return "batch";
  }
  return NameOf(plan.room, plan.size);
}

std::uint64_t NumbersOf(const Shape& shape, const cuda::Device& device) {
  Checksum sum;
  const Segment s = SegmentOf(shape);
  if (shape.inner > 1) {
    cuda::ColumnPlan plan = cuda::PlanColumns(shape.input_type, shape.output_type, s, kCompletion, device);
    if (!plan.possible) return 0;
    cuda::PlanAhead(shape.input_type, &plan);
    sum.Add(plan.mixed, plan.wide, plan.few, plan.blocks, plan.threads, plan.dynamic_bytes, plan.params);
    return sum.value();
  }
  cuda::MatrixPlan plan = cuda::PlanMatrix(shape.input_type, shape.output_type, s, kCompletion, device);
  if (plan.room != cuda::Room::kNone) cuda::PlanAhead(device, &plan);
  sum.Add(plan.room, plan.size, plan.mixed, plan.skew, plan.lines, plan.threads, plan.blocks, plan.dynamic_bytes,
          plan.params);
  if (shape.outer <= 64) AddBatch(shape, device, &sum);
  return sum.value();
}

}  // namespace softmax::kernels::testing
