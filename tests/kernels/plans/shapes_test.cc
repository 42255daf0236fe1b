#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "kernels/cuda/plan/columns.h"
#include "kernels/cuda/plan/rows.h"
#include "tests/kernels/plans/room.h"

// What docs/kernels.md says of some shapes is what the planners choose for an H100.
namespace softmax::kernels::testing {
namespace {

DataType TypeOf(const std::string& name) {
  return name == "fp32" ? DataType::kFloat32 : name == "fp16" ? DataType::kFloat16 : DataType::kBFloat16;
}

std::string PlanOf(const Shape& shape) {
  const cuda::Device& device = kDeviceModels[0].device;
  std::uint32_t workspace = 0;  // only its address is looked at
  const Completion completion{nullptr, 0, &workspace};
  const Segment s = SegmentOf(shape);
  std::int64_t blocks = 0;
  int threads = 0;
  if (shape.inner > 1) {
    const cuda::ColumnPlan plan = cuda::PlanColumns(shape.input_type, shape.output_type, s, completion, device);
    blocks = plan.blocks;
    threads = plan.threads;
  } else {
    const cuda::MatrixPlan plan = cuda::PlanMatrix(shape.input_type, shape.output_type, s, completion, device);
    blocks = plan.blocks;
    threads = plan.threads;
  }
  return RoomOf(shape, device) + ", " + std::to_string(blocks) + " x " + std::to_string(threads);
}

TEST(ShapesTest, ThePageSaysWhatIsPlanned) {
  std::ifstream page(SOFTMAX_KERNELS_PAGE);
  int shapes = 0;
  for (std::string line; std::getline(page, line);) {
    char name[8];
    char operation[16];
    char room[32];
    char grid[32];
    char file[64];
    Shape shape{};
    if (std::sscanf(line.c_str(),
                    "| %7s %15s | %" SCNd64 " x %" SCNd64 " x %" SCNd64 " | %31[a-z ] | %31[0-9x ] | `%63[^`]` |", name,
                    operation, &shape.outer, &shape.cols, &shape.inner, room, grid, file) != 8) {
      continue;
    }
    ++shapes;
    shape.input_type = shape.output_type = TypeOf(name);
    shape.operation = operation == std::string("softmax") ? Operation::kSoftmax : Operation::kLogSoftmax;
    EXPECT_EQ(PlanOf(shape) + " ", std::string(room, std::string(room).find_last_not_of(' ') + 1) + ", " + grid)
        << line;
    EXPECT_TRUE(std::ifstream(std::string(SOFTMAX_KERNELS_FOLDER) + "/" + file).good()) << line;
  }
  EXPECT_EQ(shapes, 5);
}

}  // namespace
}  // namespace softmax::kernels::testing
