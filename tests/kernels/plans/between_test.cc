#include <gtest/gtest.h>

#include "kernels/cuda/plan/rows.h"
#include "tests/kernels/plans/room.h"

// Between few and many rows, where the golden table has no column, on the model of an H200: what the measurements of
// suite `between` chose.
namespace softmax::kernels::testing {
namespace {

using cuda::Room;

cuda::MatrixPlan PlanOf(DataType type, std::int64_t rows, std::int64_t cols) {
  Segment s;
  s.input = reinterpret_cast<const void*>(std::uintptr_t{1} << 32);
  s.output = reinterpret_cast<void*>(std::uintptr_t{2} << 40);
  s.outer = rows;
  s.cols = cols;
  s.input_stride = s.output_stride = cols;
  return cuda::PlanMatrix(type, type, s, Completion{}, kDeviceModels[1].device);
}

TEST(BetweenTest, AGroupOfLanesTakesOneRowUpToSoManyBlocks) {
  EXPECT_EQ(PlanOf(DataType::kFloat32, 16 * 132 * 64, 16).room, Room::kSingle);
  EXPECT_EQ(PlanOf(DataType::kFloat32, 16 * 132 * 64 + 1, 16).room, Room::kSmall);
  EXPECT_EQ(PlanOf(DataType::kFloat32, 7 * 132 * 64, 32).room, Room::kSingle);
  EXPECT_EQ(PlanOf(DataType::kFloat32, 7 * 132 * 64 + 1, 32).room, Room::kSmall);
}

TEST(BetweenTest, TinyRowsHaveTilesOfARowAThreadFirst) {
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 10'500, 9).params.rows_per_block, 80);  // a tile for each multiprocessor
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 16'900, 17).params.rows_per_block, 256);
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 177'000, 17).params.rows_per_block, 256);
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 283'000, 17).params.rows_per_block, 512);
}

TEST(BetweenTest, ALaunchOfFewRowsDoesNotWaitForAThreadThatHasOneForItself) {
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 16'384, 17).room, Room::kSmall);
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 16'385, 17).room, Room::kTile);
  EXPECT_EQ(PlanOf(DataType::kFloat32, 4'096, 9).room, Room::kSmall);
  EXPECT_EQ(PlanOf(DataType::kFloat32, 4'097, 9).room, Room::kTile);
  EXPECT_EQ(PlanOf(DataType::kFloat32, 3, 7).room, Room::kTile);
}

TEST(BetweenTest, TilesBeginWithOneForEverySecondMultiprocessor) {
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 66 * 128, 65).room, Room::kTile);
  EXPECT_EQ(PlanOf(DataType::kBFloat16, 66 * 128 - 1, 65).room, Room::kSmall);
}

}  // namespace
}  // namespace softmax::kernels::testing
