#include "kernels/bench/cuda/references.h"

#include "kernels/bench/cuda/reference/block_rows.h"
#include "kernels/bench/cuda/reference/naive.h"
#include "kernels/bench/cuda/reference/row_persistent.h"
#include "kernels/bench/cuda/reference/warp_rows.h"

namespace softmax::kernels::bench {
namespace {

bool IsOffered(const Point& point, std::int64_t most_cols) {
  return point.plain() && !point.mixed() && point.operation == Operation::kSoftmax &&
         point.dtype != DataType::kFloat64 && point.cols <= most_cols;
}

Provider Make(const char* name, std::int64_t most_cols, const std::vector<ReferenceKernel>& kernels) {
  Provider provider;
  provider.name = name;
  provider.offers = [most_cols](const Point& point) { return IsOffered(point, most_cols); };
  for (const ReferenceKernel& kernel : kernels) {
    provider.forms.push_back([kernel](const Slot& slot, cudaStream_t stream) {
      const Segment& s = slot.segments.front();
      return kernel(slot.dtype, {s.input, s.output, s.outer, s.cols}, stream);
    });
  }
  return provider;
}

}  // namespace

std::vector<Provider> MakeReferences() {
  constexpr std::int64_t kAnyNumber = INT32_MAX;
  std::vector<Provider> providers;
  providers.push_back(Make("naive", kAnyNumber, {LaunchNaive}));
  providers.push_back(Make("row_persistent", kRowPersistentColumns, {LaunchRowPersistent}));
  providers.push_back(Make("rows_per_block", kRowsPerBlockColumns, RowsPerBlockVariants()));
  providers.push_back(Make("warp", kWarpColumns, {LaunchWarp}));
  providers.push_back(Make("block_smem", BlockSmemColumns(), {LaunchBlockSmem}));
  providers.push_back(Make("block_uncached", kAnyNumber, {LaunchBlockUncached}));
  return providers;
}

}  // namespace softmax::kernels::bench
