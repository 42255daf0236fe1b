#include <gtest/gtest.h>

#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/small_rows/tile.h"
#include "tests/kernels/plans/room.h"

// No planner chooses a kernel that is not compiled: what the Has...() of the planners' headers leave out.
namespace softmax::kernels::testing {
namespace {

using cuda::MatrixKind;

bool IsCompiled(const cuda::MatrixPlan& plan, int bytes) {
  const bool log = plan.params.log;
  const auto cols = static_cast<int>(plan.params.cols);
  switch (plan.kind) {
    case MatrixKind::kTiny:
      if (plan.slots > 0) return cuda::HasTileKernel(bytes, plan.slots, cuda::TileShare(cols, bytes), log);
      if (cuda::HasNarrow(cols, bytes)) return cuda::HasNarrowKernel(cols, bytes, log);
      return cuda::HasTinyKernel((cols - 1) / cuda::VectorElements(bytes) + 1, bytes);
    case MatrixKind::kLarge:
      return cuda::HasLarge(plan.slots, bytes);
    default:
      return true;
  }
}

struct Layout {
  std::int64_t start;  // elements past a boundary
  std::int64_t gap;
};

void ExpectCompiled(DataType type, std::int64_t cols, std::int64_t rows, Layout layout) {
  const auto bytes = static_cast<std::int64_t>(SizeOf(type));
  Segment s;
  s.input =
      reinterpret_cast<const void*>((std::uintptr_t{1} << 32) + static_cast<std::uintptr_t>(layout.start * bytes));
  s.output = reinterpret_cast<void*>((std::uintptr_t{2} << 40) + static_cast<std::uintptr_t>(layout.start * bytes));
  s.outer = rows;
  s.cols = cols;
  s.input_stride = s.output_stride = cols + layout.gap;
  for (const DeviceModel& model : kDeviceModels) {
    for (const Operation operation : {Operation::kSoftmax, Operation::kLogSoftmax}) {
      s.operation = operation;
      const cuda::MatrixPlan plan = cuda::PlanMatrix(type, type, s, Completion{}, model.device);
      EXPECT_TRUE(IsCompiled(plan, static_cast<int>(bytes)))
          << model.name << ", " << bytes << " bytes, " << rows << " x " << cols << ", start " << layout.start
          << ", gap " << layout.gap;
    }
  }
}

TEST(ChosenTest, EveryKernelThatIsChosenIsCompiled) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat64}) {
    for (std::int64_t cols = 1; cols <= 20000; cols += cols < 2100 ? 1 : 61) {
      for (const std::int64_t rows : {1, 3, 70, 265, 530, 1100, 4100, 9000, 17000, 34000, 70000, 300000, 3000000}) {
        for (const Layout layout : {Layout{0, 0}, Layout{1, 0}, Layout{0, 1}, Layout{0, 8}}) {
          ExpectCompiled(type, cols, rows, layout);
        }
      }
    }
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
