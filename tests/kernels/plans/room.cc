#include "tests/kernels/plans/room.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
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

// FNV-1a, of members one by one: what lies between them is nobody's.
class Checksum {
 public:
  template <typename... T>
  void Add(const T&... values) {
    (AddOne(values), ...);
  }
  std::uint64_t value() const { return value_; }

 private:
  template <typename T>
  void AddOne(const T& value) {
    static_assert(std::is_scalar_v<T>);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
    for (std::size_t i = 0; i < sizeof(T); ++i) value_ = (value_ ^ bytes[i]) * 0x100000001b3ull;
  }
  void AddOne(const cuda::ScaleParts<float>& s) {
    Add(s.pre, s.scale_hi, s.scale_lo, s.log2_hi, s.log2_lo, s.fast, s.plain, s.limit, s.floor, s.log_limit);
  }
  void AddOne(const cuda::ScaleParts<double>& s) { Add(s.pre, s.scale_hi, s.half_log2, s.floor); }
  void AddOne(const Completion& c) { Add(c.flag, c.value, c.workspace); }
  void AddOne(const cuda::DeviceSegment& s) {
    Add(s.input, s.output, s.lengths, s.outer, s.cols, s.inner, s.input_stride, s.output_stride, s.scale, s.log);
  }
  void AddOne(const cuda::ColumnParams& p) {
    Add(p.segment, p.scale_double, p.scale_float, p.completion, p.zero, p.units, p.ahead_bytes, p.output_type, p.width,
        p.side_log, p.shares, p.lanes, p.chunks, p.entries, p.cluster_blocks);
  }
  void AddOne(const cuda::MatrixParams& p) {
    Add(p.input, p.output, p.lengths, p.rows, p.cols, p.input_stride, p.output_stride, p.elements, p.scale_double,
        p.scale_float, p.lanes, p.chunks, p.warps, p.rows_per_block, p.block_chunks, p.warp_chunks, p.warp_vectors,
        p.slice_bytes, p.cluster_blocks, p.groups, p.block_groups, p.row_blocks, p.table_rows, p.output_type, p.log,
        p.next_early, p.ahead_bytes, p.completion);
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
  for (const char c : RoomOf(shape, device)) sum.Add(c);
  const Segment s = SegmentOf(shape);
  if (shape.inner > 1) {
    cuda::ColumnPlan plan = cuda::PlanColumns(shape.input_type, shape.output_type, s, kCompletion, device);
    if (!plan.possible) return sum.value();
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
