#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>

#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/rows/matrix.h"
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
  const std::regex row(
      R"(\| (\w+) (log-softmax|softmax) \| (\d+) x (\d+) x (\d+) \| ([\w ]+) \| (\d+ x \d+) \| `([\w./]+)` \|)");
  int shapes = 0;
  for (std::string line; std::getline(page, line);) {
    std::smatch m;
    if (!std::regex_match(line, m, row)) continue;
    ++shapes;
    const DataType type = TypeOf(m[1]);
    const Operation operation = m[2] == "softmax" ? Operation::kSoftmax : Operation::kLogSoftmax;
    EXPECT_EQ(PlanOf({type, type, operation, std::stoll(m[3]), std::stoll(m[4]), std::stoll(m[5])}),
              m[6].str() + ", " + m[7].str())
        << line;
    EXPECT_TRUE(std::ifstream(SOFTMAX_KERNELS_FOLDER + ("/" + m[8].str())).good()) << line;
  }
  EXPECT_EQ(shapes, 5);
}

}  // namespace
}  // namespace softmax::kernels::testing
