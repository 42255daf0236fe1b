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
};

__device__ __forceinline__ int WarpSum(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xffffffffu, value);
#else
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
#endif
}
template <typename Key>
__device__ __forceinline__ Key WarpLargest(Key key) {
#if __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Key) == 4) return __reduce_max_sync(0xffffffffu, key);
#endif
  for (int offset = 16; offset > 0; offset >>= 1) {
    const Key other = __shfl_xor_sync(0xffffffffu, key, offset);
    key = other > key ? other : key;
  }
  return key;
}
// Counts of a digit of keys, by which the k-th largest is found: the digits of all that have the same ones before it.
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
template <typename T>
__device__ __forceinline__ bool HasPrefix(T value, T prefix, int bits) {
  return bits >= static_cast<int>(sizeof(T)) * 8 || (value >> bits) == (prefix >> bits);
}
// Lanes that count for the same digit, as neighbours often do, add together.
__device__ __forceinline__ void CountInWarp(int* counts, bool is_counted, int digit) {
  const unsigned active = __activemask();
  const unsigned counting = __ballot_sync(active, is_counted);
  if (!is_counted) return;
  const unsigned same = __match_any_sync(counting, digit);
  if ((same & ((1u << (threadIdx.x % 32)) - 1)) == 0) atomicAdd(counts + digit, __popc(same));
}
// The digit of the `left`-th largest, how many have a larger one and how many have it; the same for all threads.
struct FoundDigit {
  int digit;
  int above;
  int count;
};
__device__ __forceinline__ FoundDigit FindDigit(const int* counts, int left) {
  constexpr int kEach = kDigits / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int top = kDigits - 1 - lane * kEach;  // lanes begin with the largest digits
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += counts[top - i];
  int before = sum;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, before, offset);
    if (lane >= offset) before += other;
  }
  before -= sum;
  const int owner = 31 - __clz(static_cast<int>(__ballot_sync(0xffffffffu, before < left)));
  FoundDigit found{top, before, counts[top]};
  while (found.above + found.count < left && found.digit > top - kEach + 1) {
    found.above += found.count;
    found.count = counts[--found.digit];
  }
  return {__shfl_sync(0xffffffffu, found.digit, owner), __shfl_sync(0xffffffffu, found.above, owner),
          __shfl_sync(0xffffffffu, found.count, owner)};
}
// Zero counts, in the memory of the candidates, for all of the block.
template <typename In>
__device__ __forceinline__ int* ClearDigits(TopShared<In>& shared) {
  int* const counts = reinterpret_cast<int*>(shared.keys);
  static_assert(sizeof(shared.keys) >= kDigits * sizeof(int));
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kBlockThreads) counts[i] = 0;
  __syncthreads();
  return counts;
}

// A key that at least `k` of the keys reach, and no more than `most` if there is such a one; of equal keys as many as
// there are. for_each(use) calls use(is_there, key) with this thread's, by whole warps; all together they are k at
// least.
template <typename In, typename F>
__device__ KeyOf<In> Threshold(TopShared<In>& shared, int k, int most, F for_each) {
  using Key = KeyOf<In>;
  Key prefix = 0;
  int above = 0;
  for (int shift = kKeyBits<In> - kDigitBits; shift >= 0; shift -= kDigitBits) {
    int* const counts = ClearDigits(shared);
    for_each([&](bool is_there, Key key) {
      CountInWarp(counts, is_there && HasPrefix(key, prefix, shift + kDigitBits),
                  static_cast<int>(key >> shift) & (kDigits - 1));
    });
    __syncthreads();
    const FoundDigit found = FindDigit(counts, k - above);
    prefix |= static_cast<Key>(static_cast<Key>(found.digit) << shift);
    above += found.above;
    if (above + found.count <= most) break;
  }
  __syncthreads();
  return prefix;
}

// Adds an element to the candidates. Those that find no room are counted all the same.
template <typename In>
__device__ __forceinline__ void AddCandidate(TopShared<In>& shared, KeyOf<In> key, std::int64_t index) {
  const int place = atomicAdd(&shared.count, 1);
  if (place >= kCandidates) return;
  shared.keys[place] = key;
  shared.indices[place] = static_cast<std::uint32_t>(index);
}

// Calls write(i, element) with the first `k` of the candidates in their order, each by one thread.
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
      if (before < k) write(before, mine);
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
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kBlockThreads) write(i, at(i));
}

}  // namespace softmax::kernels::cuda
