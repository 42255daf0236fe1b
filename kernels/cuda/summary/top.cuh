#pragma once

#include "kernels/cuda/core/work.h"
#include "kernels/cuda/summary/keys.cuh"

// A block's search for the largest elements of a row: which keys are worth looking at, and the order of those found.
namespace softmax::kernels::cuda {

// As many of the elements that a row's search brings together; twice kMaxTopK, so that a threshold need not be exact.
constexpr int kCandidates = 2 * kMaxTopK;

template <typename In>
struct TopShared {
  KeyOf<In> keys[kCandidates];
  std::uint32_t indices[kCandidates];
  int count;
  int sums[2][kBlockWarps];
};

// The sum of each thread's `value`, for all of the block. `turn` alternates from call to call.
template <typename In>
__device__ __forceinline__ int BlockSum(TopShared<In>& shared, int value, int turn) {
#if __CUDA_ARCH__ >= 800
  value = __reduce_add_sync(0xffffffffu, value);
#else
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
#endif
  if (threadIdx.x % 32 == 0) shared.sums[turn & 1][threadIdx.x / 32] = value;
  __syncthreads();
  int sum = 0;
#pragma unroll
  for (int w = 0; w < kBlockWarps; ++w) sum += shared.sums[turn & 1][w];
  return sum;
}

// A key that at least `k` of the keys reach, and no more than `most` if there is such a one; of equal keys as many as
// there are. count(key) is how many of this thread's reach a key; those of all threads together are k at least.
template <typename In, typename F>
__device__ KeyOf<In> Threshold(TopShared<In>& shared, int k, int most, F count) {
  using Key = KeyOf<In>;
  Key low = 0;  // all reach it
  for (int bit = kKeyBits<In> - 1; bit >= 0; --bit) {
    const Key middle = low | static_cast<Key>(Key{1} << bit);
    const int reached = BlockSum(shared, count(middle), bit);
    if (reached >= k) low = middle;
    if (reached >= k && reached <= most) break;
  }
  return low;
}

// Adds an element to the candidates. Those that find no room are counted all the same.
template <typename In>
__device__ __forceinline__ void AddCandidate(TopShared<In>& shared, KeyOf<In> key, std::int64_t index) {
  const int place = atomicAdd(&shared.count, 1);
  if (place >= kCandidates) return;
  shared.keys[place] = key;
  shared.indices[place] = static_cast<std::uint32_t>(index);
}

// Calls write(i, index) with the first `k` of the candidates in their order, each by one thread.
template <typename In, typename F>
__device__ void WriteInOrder(TopShared<In>& shared, int k, F write) {
  constexpr int kCounted = 2 * kBlockThreads;
  const int count = shared.count;
  const auto at = [&](int i) { return Ranked<In>{shared.keys[i], shared.indices[i]}; };
  if (count <= kCounted) {  // each finds its place by counting those before it
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) {
      const Ranked<In> mine = at(i);
      int before = 0;
      for (int j = 0; j < count; ++j) before += at(j).IsBefore(mine) ? 1 : 0;
      if (before < k) write(before, mine.index);
    }
    return;
  }
  int size = kCounted;
  while (size < count) size *= 2;
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kBlockThreads) {
    shared.keys[i] = 0;
    shared.indices[i] = 0xffffffffu;
  }
  for (int run = 2; run <= size; run *= 2) {  // bitonic
    for (int step = run / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < size; i += kBlockThreads) {
        const int other = i ^ step;
        if (other <= i) continue;
        const Ranked<In> a = at(i);
        const Ranked<In> b = at(other);
        if (((i & run) == 0) != b.IsBefore(a)) continue;
        shared.keys[i] = b.key;
        shared.indices[i] = b.index;
        shared.keys[other] = a.key;
        shared.indices[other] = a.index;
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kBlockThreads) write(i, shared.indices[i]);
}

}  // namespace softmax::kernels::cuda
