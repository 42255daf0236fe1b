#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/general/plan.h"
#include "tests/kernels/plans/room.h"

// Plans of the room that takes what no other does.
namespace softmax::kernels::testing {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64};

Segment SegmentOf(std::int64_t outer, std::int64_t cols) {
  return testing::SegmentOf(Shape{DataType::kFloat32, DataType::kFloat32, Operation::kSoftmax, outer, cols, 1});
}

TEST(GeneralPlanTest, EveryLaunchFitsItsDevice) {
  for (const DeviceModel& model : kDeviceModels) {
    for (const DataType type : kTypes) {
      for (const std::int64_t cols : {1, 1000, 1025, 5000, 50257, 262145, 8'388'608}) {
        for (const std::int64_t outer : {1, 3, 100'000}) {
          const Segment s = SegmentOf(outer, cols);
          cuda::GeneralPlan plan;
          cuda::PlanGeneral(type, type, &s, 1, nullptr, Completion{}, model.device, &plan);
          const cuda::GeneralParams& p = plan.params;
          const auto name = ::testing::Message() << model.name << " " << outer << " x " << cols;
          EXPECT_LE(plan.dynamic_bytes, model.device.shared_bytes) << name;
          EXPECT_LE(p.cluster_blocks, model.device.clusters ? cuda::kMaxClusterBlocks : 1) << name;
          EXPECT_LE(plan.blocks, cuda::kMaxGridBlocks) << name;
          EXPECT_EQ(plan.blocks % p.cluster_blocks, 0) << name;
          EXPECT_GE(plan.blocks / p.cluster_blocks * p.items_per_team, p.items) << name;
          EXPECT_GE(p.kept_chunks, 1) << name;
        }
      }
    }
  }
}

// More segments than the parameters hold, all kinds of rows and empty ones among them: each begins where the one before
// it ends. On an A100 no rows take a cluster.
TEST(GeneralPlanTest, ItemsAreCountedFromSegmentToSegment) {
  // Of fp32: 64 rows of 4 lanes, 8 rows of a lane group of 32, 2 rows of 3 chunks, 1 row of 9.
  const struct {
    Segment segment;
    std::int64_t items;
  } kinds[] = {{SegmentOf(65, 32), 2},
               {SegmentOf(0, 32), 0},
               {SegmentOf(17, 1000), 3},
               {SegmentOf(5, 1500), 3},
               {SegmentOf(2, 4097), 2}};
  std::vector<Segment> segments;
  std::vector<std::int64_t> firsts;
  std::int64_t items = 0;
  for (int i = 0; i < 60; ++i) {
    segments.push_back(kinds[i % 5].segment);
    if (kinds[i % 5].items > 0) firsts.push_back(items);
    items += kinds[i % 5].items;
  }
  std::vector<cuda::GeneralSegment> table(segments.size());
  cuda::GeneralPlan plan;
  cuda::PlanGeneral(DataType::kFloat32, DataType::kFloat32, segments.data(), std::ssize(segments), table.data(),
                    Completion{}, kDeviceModels[2].device, &plan);
  EXPECT_EQ(plan.params.table, table.data());
  EXPECT_EQ(plan.params.items, items);
  ASSERT_EQ(plan.params.segment_count, firsts.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) EXPECT_EQ(table[i].first_item, firsts[i]) << i;
}

}  // namespace
}  // namespace softmax::kernels::testing
