#include <gtest/gtest.h>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/general/plan.h"
#include "kernels/cuda/large_rows/wide.h"
#include "kernels/cuda/rows/link.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/rows/mixed.h"
#include "kernels/cuda/small_rows/share.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

// `of` has the table of each element type, as the family's own functions have them.
template <typename Table>
void ExpectOwn(const Table& (&of)(DataType), const Table& (&float32)(), const Table& (&float16)(),
               const Table& (&bfloat16)()) {
  EXPECT_EQ(&of(DataType::kFloat32), &float32());
  EXPECT_EQ(&of(DataType::kFloat16), &float16());
  EXPECT_EQ(&of(DataType::kBFloat16), &bfloat16());
}

TEST(TablesTest, EveryTypeHasItsOwnKernels) {
  ExpectOwn(KernelTableFor, Float32Kernels, Float16Kernels, BFloat16Kernels);
  ExpectOwn(BatchKernelsFor, Float32BatchKernels, Float16BatchKernels, BFloat16BatchKernels);
  ExpectOwn(ColumnKernelsFor, Float32ColumnKernels, Float16ColumnKernels, BFloat16ColumnKernels);
  ExpectOwn(ColumnLanesKernelsFor, Float32ColumnLanesKernels, Float16ColumnLanesKernels, BFloat16ColumnLanesKernels);
  ExpectOwn(LinkKernelsFor, Float32LinkKernels, Float16LinkKernels, BFloat16LinkKernels);
  ExpectOwn(MatrixKernelsFor, Float32MatrixKernels, Float16MatrixKernels, BFloat16MatrixKernels);
  ExpectOwn(MixedKernelsFor, Float32MixedKernels, Float16MixedKernels, BFloat16MixedKernels);
  ExpectOwn(ShareKernelsFor, Float32ShareKernels, Float16ShareKernels, BFloat16ShareKernels);
  ExpectOwn(StreamKernelsFor, Float32StreamKernels, Float16StreamKernels, BFloat16StreamKernels);
  ExpectOwn(TileKernelsFor, Float32TileKernels, Float16TileKernels, BFloat16TileKernels);
  ExpectOwn(WideKernelsFor, Float32WideKernels, Float16WideKernels, BFloat16WideKernels);
}

TEST(TablesTest, DoublesHaveTheirOwnOrNone) {
  EXPECT_EQ(&KernelTableFor(DataType::kFloat64), &Float64Kernels());
  EXPECT_EQ(&BatchKernelsFor(DataType::kFloat64), &Float64BatchKernels());
  EXPECT_EQ(&ColumnKernelsFor(DataType::kFloat64), &Float64ColumnKernels());
  EXPECT_EQ(&LinkKernelsFor(DataType::kFloat64), &Float64LinkKernels());
  EXPECT_EQ(&MatrixKernelsFor(DataType::kFloat64), &Float64MatrixKernels());
  EXPECT_EQ(&MixedKernelsFor(DataType::kFloat64), &Float64MixedKernels());
  EXPECT_EQ(&TileKernelsFor(DataType::kFloat64), &Float64TileKernels());
  EXPECT_EQ(&ColumnLanesKernelsFor(DataType::kFloat64), &NoKernels<ColumnLanesKernels>());
  EXPECT_EQ(&ShareKernelsFor(DataType::kFloat64), &NoKernels<ShareKernels>());
  EXPECT_EQ(&StreamKernelsFor(DataType::kFloat64), &NoKernels<ColumnStreamKernels>());
  EXPECT_EQ(&WideKernelsFor(DataType::kFloat64), &NoKernels<WideKernels>());
  for (const void* kernel : NoKernels<ColumnLanesKernels>()) EXPECT_EQ(kernel, nullptr);
  for (const void* kernel : NoKernels<ShareKernels>()) EXPECT_EQ(kernel, nullptr);
  for (const void* kernel : NoKernels<ColumnStreamKernels>()) EXPECT_EQ(kernel, nullptr);
  for (const void* kernel : NoKernels<WideKernels>().ring) EXPECT_EQ(kernel, nullptr);
}

}  // namespace
}  // namespace softmax::kernels::cuda
