#include <gtest/gtest.h>

#include "kernels/cuda/plan/columns.h"
#include "kernels/cuda/plan/rows.h"
#include "kernels/cuda/registry.h"
#include "tests/kernels/plans/room.h"

// No planner chooses a kernel that is not compiled. It takes no GPU.
namespace softmax::kernels::testing {
namespace {

struct Layout {
  std::int64_t start;  // elements past a boundary
  std::int64_t gap;
};

void ExpectCompiled(DataType type, DataType output_type, Segment s, Layout layout) {
  const auto at = [&](std::uintptr_t address, DataType of) {
    return address + static_cast<std::uintptr_t>(layout.start) * SizeOf(of);
  };
  s.input = reinterpret_cast<const void*>(at(std::uintptr_t{1} << 32, type));
  s.output = reinterpret_cast<void*>(at(std::uintptr_t{2} << 40, output_type));
  s.input_stride = s.output_stride = s.cols * s.inner + layout.gap;
  for (const DeviceModel& model : kDeviceModels) {
    for (const Operation operation : {Operation::kSoftmax, Operation::kLogSoftmax}) {
      s.operation = operation;
      const void* kernel = nullptr;
      if (s.inner > 1) {
        const cuda::ColumnPlan plan = cuda::PlanColumns(type, output_type, s, Completion{}, model.device);
        if (!plan.possible) continue;
        kernel = cuda::KernelOf(type, plan.room(), plan.size(), plan.form());
      } else {
        const cuda::MatrixPlan plan = cuda::PlanMatrix(type, output_type, s, Completion{}, model.device);
        if (plan.room == cuda::Room::kNone) continue;
        kernel = cuda::KernelOf(type, plan.room, plan.size, plan.form());
      }
      EXPECT_NE(kernel, nullptr) << model.name << ", types " << static_cast<int>(type) << " and "
                                 << static_cast<int>(output_type) << ", " << s.outer << " x " << s.cols << " x "
                                 << s.inner << ", start " << layout.start << ", gap " << layout.gap;
    }
  }
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64};

TEST(ChosenTest, EveryKernelOfContiguousRowsIsCompiled) {
  for (const DataType type : kTypes) {
    for (const DataType output_type : {type, DataType::kFloat32}) {
      for (std::int64_t cols = 1; cols <= 300000; cols += cols < 1100 ? 1 : cols < 20000 ? 61 : 997) {
        for (const std::int64_t rows : {1, 70, 530, 4100, 17000, 70000, 3000000}) {
          for (const Layout layout : {Layout{0, 0}, Layout{1, 0}, Layout{0, 1}, Layout{0, 8}}) {
            ExpectCompiled(type, output_type, {.outer = rows, .cols = cols}, layout);
          }
        }
      }
    }
  }
}

TEST(ChosenTest, EveryKernelOfAnotherAxisIsCompiled) {
  for (const DataType type : kTypes) {
    for (const DataType output_type : {type, DataType::kFloat32}) {
      for (const std::int64_t cols : {1, 2, 8, 9, 17, 33, 64, 65, 500, 1025, 4096, 9000, 70000, 600000}) {
        for (const std::int64_t inner : {2, 3, 8, 16, 100, 1000, 1001, 65536}) {
          for (const std::int64_t outer : {1, 50, 4096}) {
            for (const Layout layout : {Layout{0, 0}, Layout{1, 0}, Layout{0, 8}}) {
              ExpectCompiled(type, output_type, {.outer = outer, .cols = cols, .inner = inner}, layout);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
