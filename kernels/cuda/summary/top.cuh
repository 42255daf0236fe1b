#pragma once

#include "kernels/cuda/core/element.cuh"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/summary/summary.h"

// A block's search for the largest elements of a row: which keys are worth looking at, and the order of those found.
namespace softmax::kernels::cuda {

// The order in which elements are the largest: by value, and equal ones by the smallest index. As integers, of which a
// larger one stands before a smaller one.

template <typename In>
using BitsOf = std::conditional_t<sizeof(In) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(In) == 4, std::uint32_t, std::uint16_t>>;
template <typename In>
using KeyOf = std::conditional_t<sizeof(In) == 8, std::uint64_t, std::uint32_t>;
template <typename In>
constexpr auto kSignBit = static_cast<BitsOf<In>>(BitsOf<In>{1} << (8 * sizeof(In) - 1));

// The key of an element that is not NaN; the two zeros have the same one.
template <typename In>
__device__ __forceinline__ KeyOf<In> MakeKey(In x) {
  BitsOf<In> bits;
  memcpy(&bits, &x, sizeof(bits));
  if (bits == kSignBit<In>) bits = 0;
  return static_cast<BitsOf<In>>((bits & kSignBit<In>) != 0 ? ~bits : bits | kSignBit<In>);
}
// The element of a key; of the two zeros the positive one, of 0 a NaN.
template <typename In>
__device__ __forceinline__ In ElementOfKey(KeyOf<In> key) {
  const auto bits = static_cast<BitsOf<In>>(key);
  const auto element = static_cast<BitsOf<In>>((bits & kSignBit<In>) != 0 ? bits & ~kSignBit<In> : ~bits);
  In x;
  memcpy(&x, &element, sizeof(x));
  return x;
}
// Of an element as computed with.
template <typename In>
__device__ __forceinline__ KeyOf<In> MakeKeyOf(ComputeOf<In> x) {
  return MakeKey<In>(FromCompute<In, ComputeOf<In>>(x));
}

// A candidate's place in the order.
template <typename In>
struct Ranked {
  KeyOf<In> key;
  std::uint32_t index;

  __device__ __forceinline__ bool IsBefore(const Ranked& other) const {
    // No branch: it would keep the loads of one comparison behind those of another.
    return (key > other.key) | ((key == other.key) & (index < other.index));
  }
};

// As many of the elements that a row's search brings together; twice kMaxTopK, so that a threshold need not be exact.
constexpr int kCandidates = 2 * kMaxTopK;

template <typename In>
struct TopShared {
  KeyOf<In> keys[kCandidates];
  std::uint32_t indices[kCandidates];
  int count;  // of the candidates; those that found no room are counted, too
  // First the numbers of the chunks, or of the chunks' lanes, that may hold some of the largest; then each candidate's
  // place in the order, and the candidates bin by bin.
  union {
    int places[kCandidates];
    struct {
      std::uint16_t ranks[kCandidates];
      std::uint16_t members[kCandidates];
    } order;
  };
  int place_count;
  struct {
    int bin;
    int above;
    int reached;
  } found;  // the bin of a threshold
  int bins[LargeRowThreads(sizeof(In))];
  KeyOf<In> exchanged[2][32];  // by the searchers' warps
};

__device__ __forceinline__ int WarpSum(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xffffffffu, value);
#else
  return LaneSum(value, 32);
#endif
}
// Of those of the lanes up to this one.
__device__ __forceinline__ int WarpSumUpTo(int value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, value, offset);
    if (lane >= offset) value += other;
  }
  return value;
}
template <typename Key>
__device__ __forceinline__ Key WarpLargest(Key key) {
#if __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Key) == 4) {
    return __reduce_max_sync(0xffffffffu, key);
  } else
#endif
  {
    for (int offset = 16; offset > 0; offset >>= 1) key = max(key, __shfl_xor_sync(0xffffffffu, key, offset));
    return key;
  }
}

// Those of a block's threads that search: all but the first warp, which folds the statistics. They call all together.
template <typename In>
class Searchers {
 public:
  using Key = KeyOf<In>;

  __device__ __forceinline__ explicit Searchers(TopShared<In>& shared) : shared_(shared) {}

  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x) - 32; }
  __device__ __forceinline__ int threads() const { return static_cast<int>(blockDim.x) - 32; }
  __device__ __forceinline__ int warps() const { return threads() / 32; }
  __device__ __forceinline__ void Sync() const { asm volatile("bar.sync 1, %0;" ::"r"(threads()) : "memory"); }

  // The sum of those of the threads up to this one.
  __device__ __noinline__ int SumUpTo(int value) const {
    const int sum = WarpSumUpTo(value);
    const auto of_warp = static_cast<int>(Exchange(static_cast<Key>(__shfl_sync(0xffffffffu, sum, 31)), Key{0}).first);
    return sum + WarpSum(Lane() < thread() / 32 ? of_warp : 0);
  }
  // The smallest into `low`, the largest into `high`.
  __device__ __forceinline__ void Range(Key* low, Key* high) const {
    const Pair all = Exchange(WarpLargest(static_cast<Key>(~*low)), WarpLargest(*high));
    *low = static_cast<Key>(~WarpLargest(all.first));
    *high = WarpLargest(all.second);
  }

 private:
  struct Pair {
    Key first;
    Key second;
  };

  __device__ __forceinline__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  // Lane i gets what warp i gave, 0 where there is no such warp. The next one comes behind another barrier.
  __device__ __forceinline__ Pair Exchange(Key first, Key second) const {
    auto& place = shared_.exchanged;
    if (Lane() == 0) {
      place[0][thread() / 32] = first;
      place[1][thread() / 32] = second;
    }
    Sync();
    const bool is_there = Lane() < warps();
    return {is_there ? place[0][Lane()] : Key{0}, is_there ? place[1][Lane()] : Key{0}};
  }

  TopShared<In>& shared_;
};

// Keys from `low` to `high` in bins of 2^shift, of which each searcher has one: the first the largest keys.
template <typename In>
struct KeyBins {
  using Key = KeyOf<In>;
  Key low = static_cast<Key>(~Key{0});
  Key high = 0;
  int shift = 0;

  __device__ __forceinline__ void Add(Key key) {
    low = min(low, key);
    high = max(high, key);
  }
  __device__ __forceinline__ void Divide(int bins) {
    static_assert(LargeRowThreads(sizeof(In)) <= 1 << 10);
    const int bits = 64 - __clzll(static_cast<long long>(high - low));
    shift = bits > 10 ? bits - 10 : 0;
    while ((high - low) >> shift >= static_cast<unsigned>(bins)) ++shift;
  }
  __device__ __forceinline__ bool Has(Key key) const { return key >= low && key <= high; }
  __device__ __forceinline__ int BinOf(Key key) const { return static_cast<int>((high - key) >> shift); }
  // Leaves the keys of one of the bins.
  __device__ __forceinline__ void Narrow(int bin) {
    high -= static_cast<Key>(bin) << shift;
    const Key most = (Key{1} << shift) - 1;
    if (high - low > most) low = high - most;
  }
};

// A key that at least `k` of `count` keys reach, `count` >= k, and no more than `most` if there is such a one; else the
// k-th largest. key_at(i): the i-th of them. `least`: one that k of them are known to reach, or 0.
template <typename In, typename F>
__device__ __forceinline__ KeyOf<In> FindThreshold(TopShared<In>& shared, std::int64_t count, int k, int most,
                                                   KeyOf<In> least, F key_at) {
  using Key = KeyOf<In>;
  constexpr int kMany = 4;  // on their way at a time
  const Searchers<In> searchers(shared);
  int* const counts = shared.bins;
  KeyBins<In> bins;
  for (bool is_first = true;; is_first = false) {  // the first time for the range of the keys
    if (!is_first) {
      bins.Divide(searchers.threads());
      counts[searchers.thread()] = 0;
      searchers.Sync();
    }
    for (std::int64_t first = searchers.thread(); first < count; first += kMany * searchers.threads()) {
      Key keys[kMany];
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        const std::int64_t at = first + i * searchers.threads();
        if (at < count) keys[i] = key_at(at);
      }
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        if (first + i * searchers.threads() >= count) continue;
        if (is_first) {
          bins.Add(keys[i]);
        } else if (bins.Has(keys[i])) {
          atomicAdd(counts + bins.BinOf(keys[i]), 1);
        }
      }
    }
    if (is_first) {
      searchers.Range(&bins.low, &bins.high);
      bins.low = max(bins.low, least);
      continue;
    }
    searchers.Sync();
    const int mine = counts[searchers.thread()];
    const int reached = searchers.SumUpTo(mine);
    if (reached - mine < k && reached >= k) shared.found = {searchers.thread(), reached - mine, reached};
    searchers.Sync();
    bins.Narrow(shared.found.bin);
    if (bins.low == bins.high || shared.found.reached <= most) return bins.low;
    k -= shared.found.above;
    most -= shared.found.above;
  }
}

// Adds an element to the candidates.
template <typename In>
__device__ __forceinline__ void AddCandidate(TopShared<In>& shared, KeyOf<In> key, std::int64_t index) {
  const int place = atomicAdd(&shared.count, 1);
  if (place >= kCandidates) return;
  shared.keys[place] = key;
  shared.indices[place] = static_cast<std::uint32_t>(index);
}

// Finds the candidates' places in their order. Where they are many they are spread over bins, and look in their own.
template <typename In>
__device__ __forceinline__ void RankCandidates(TopShared<In>& shared) {
  constexpr int kFew = 64;
  const Searchers<In> searchers(shared);
  const int count = shared.count;
  const auto at = [&](int i) { return Ranked<In>{shared.keys[i], shared.indices[i]}; };
  const auto for_all = [&](auto use) {
    for (int i = searchers.thread(); i < count; i += searchers.threads()) use(i, at(i));
  };
  if (count <= kFew) {
    for_all([&](int i, const Ranked<In>& mine) {
      int rank = 0;
#pragma unroll 4
      for (int j = 0; j < count; ++j) rank += at(j).IsBefore(mine) ? 1 : 0;
      shared.order.ranks[i] = static_cast<std::uint16_t>(rank);
    });
    return;
  }
  KeyBins<In> bins;
  for_all([&](int, const Ranked<In>& mine) { bins.Add(mine.key); });
  searchers.Range(&bins.low, &bins.high);
  bins.Divide(searchers.threads());
  int* const begins = shared.bins;
  begins[searchers.thread()] = 0;
  searchers.Sync();
  for_all([&](int i, const Ranked<In>& mine) {
    shared.order.ranks[i] = static_cast<std::uint16_t>(atomicAdd(begins + bins.BinOf(mine.key), 1));
  });
  searchers.Sync();
  const int mine = begins[searchers.thread()];
  begins[searchers.thread()] = searchers.SumUpTo(mine) - mine;
  searchers.Sync();
  for_all([&](int i, const Ranked<In>& mine) {
    shared.order.members[begins[bins.BinOf(mine.key)] + shared.order.ranks[i]] = static_cast<std::uint16_t>(i);
  });
  searchers.Sync();
  for_all([&](int i, const Ranked<In>& mine) {
    const int bin = bins.BinOf(mine.key);
    const int end = bin + 1 < searchers.threads() ? begins[bin + 1] : count;
    int rank = begins[bin];
    for (int j = rank; j < end; ++j) rank += at(shared.order.members[j]).IsBefore(mine) ? 1 : 0;
    shared.order.ranks[i] = static_cast<std::uint16_t>(rank);
  });
}

}  // namespace softmax::kernels::cuda
