#pragma once

#include <cstring>

#include "kernels/cuda/columns/matrix.cuh"

// Small rows split between the two blocks of a cluster: strips may be twice as wide for the same shared memory, which
// matters where columns miss the sectors of memory. A block has every other vector of columns, and so every other lane
// of the tree: a subtree of its own, up to the last addition. The blocks exchange maxima before they take exponentials,
// and sums before that addition.
namespace softmax::kernels::cuda {

// Each exchange brings one entry from each block; the maxima come to the first entries, the sums to those after them.
template <typename In, int kUnit, ColumnMode kMode, bool kMixed>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode, kMixed>::ArriveSplit() const {
  const int bytes = kSplitBlocks * width_ * static_cast<int>(sizeof(Stats<C>));
  exchange_.Expect(bytes);
  sums_exchange_.Expect(bytes);
  ClusterExchange::Arrive();
}

template <typename In, int kUnit, ColumnMode kMode, bool kMixed>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode, kMixed>::ExchangeMaxima() const {
  for (int row = static_cast<int>(threadIdx.x); row < width_; row += threads_) {
    C max = task_maxima_[row];
    for (int warp = 1; warp < threads_ / 32; ++warp) max = fmax(max, task_maxima_[warp * params_.strip + row]);
    exchange_.Send(Entry(rank_, row), Stats<C>{max, C(0)}, kSplitBlocks);
  }
  exchange_.Wait();
}

template <typename In, int kUnit, ColumnMode kMode, bool kMixed>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode, kMixed>::TakeSplit() {
  static_assert(sizeof(Stats<C>) >= sizeof(double), "a sum is sent as an entry");
  const auto thread = static_cast<int>(threadIdx.x);
  for (int row = thread; row < width_; row += threads_) {
    const double sum = TaskSum(sums_ + row);
    Stats<C> entry = NoStats<C>();
    memcpy(&entry, &sum, sizeof(sum));
    sums_exchange_.Send(Entry(kSplitBlocks + rank_, row), entry, kSplitBlocks);
  }
  if (thread >= width_) return;
  sums_exchange_.Wait();
  for (int row = thread; row < width_; row += threads_) {
    double sums[kSplitBlocks];
    for (int block = 0; block < kSplitBlocks; ++block) {
      memcpy(&sums[block], Entry(kSplitBlocks + block, row), sizeof(double));
    }
    const C max = maxima_[row];
    const double sum = (sums[0] + sums[1]) * ExpBase<C>(max, scale_).correction;
    Finish(0, row, Stats<C>{max, static_cast<C>(sum)});
  }
}

}  // namespace softmax::kernels::cuda
