#pragma once

#include "kernels/cuda/columns/unit.cuh"
#include "kernels/cuda/strips/lanes.cuh"
#include "kernels/cuda/strips/ring.h"

// Columns in shared memory as strips/ring.cuh has them: where they lie, and the words that a thread has of them.
namespace softmax::kernels::cuda {

// Where a column's vector lies in shared memory: in an order of its own, so that columns that are one apart, or lanes,
// use all banks.
template <int kStripBytes = kRingStripBytes>
__device__ __forceinline__ int RingPlace(int column, int vector) {
  constexpr int kVectors = kStripBytes / kVectorBytes;
  static_assert(kVectors == 4 || kVectors == 8, "a line of banks has two columns, or one");
  return column * kStripBytes + (vector ^ (column * kVectors / 8 % kVectors)) * kVectorBytes;
}

// What a thread has of two neighbouring rows of 16-bit elements, or of one of 32 bits, in a chunk: the slots of a lane.
template <typename In, bool kAll, int kStripBytes = kRingStripBytes>
class ColumnWords {
 public:
  static constexpr int kRows = 4 / static_cast<int>(sizeof(In));

  static constexpr int kSlotBytes = 32 * Element<In>::kVector * kStripBytes;

  // `tile_of(s)`: where the columns of slot s lie; `word`: the rows' place in a column; `columns`: of the chunk.
  template <typename F>
  __device__ __forceinline__ ColumnWords(F tile_of, int word, int columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Eight lanes, as many as there are vectors to a line of banks, read different ones; see RingPlace().
    const int spread = (sizeof(In) == 2 ? lane : lane >> 1) & (kVector - 1);
    int at[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      at[e] = RingPlace<kStripBytes>(lane * kVector + (e ^ spread), word / 4) + word % 4 * 4;
    }
    const int left = columns - lane * kVector;
#pragma unroll
    for (int s = 0; s < kChunkSlots; ++s) {
      const unsigned char* const tile = tile_of(s);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        words_[s][e] = NothingVector<In>().x;
        if (kAll || (e ^ spread) < left - s * 32 * kVector) {
          words_[s][e] = *reinterpret_cast<const std::uint32_t*>(tile + at[e]);
        }
      }
    }
  }
  // By a whole warp.
  __device__ __forceinline__ void Reduce(const Scale<float>& scale, Stats<float> (&stats)[kRows]) const {
    float max[kRows];
    UnitMaximum<In, kRows> maximum;
#pragma unroll
    for (int s = 0; s < kChunkSlots; ++s) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        typename Unit<In, kRows>::Raw raw;
        memcpy(&raw, &words_[s][e], sizeof(raw));
        maximum.Add(raw);
      }
    }
    maximum.Get(max);
#pragma unroll
    for (int row = 0; row < kRows; ++row) stats[row] = ReduceRow(row, LaneMax(max[row], 32), scale);
  }

 private:
  static constexpr int kVector = Element<In>::kVector;

  __device__ __forceinline__ float Get(int s, int e, int row) const {
    typename Unit<In, kRows>::Raw raw;
    memcpy(&raw, &words_[s][e], sizeof(raw));
    float x[kRows];
    Unit<In, kRows>::Open(raw, x);
    return x[row];
  }
  __device__ __forceinline__ Stats<float> ReduceRow(int row, float max, const Scale<float>& scale) const {
    const ExpBase<float> base(max, scale);
    float sums[kVector] = {};
    const auto add_up = [&](auto exp) {
#pragma unroll
      for (int s = 0; s < kChunkSlots; ++s) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float y = exp(Get(s, e, row));
          sums[e] = s == 0 ? y : sums[e] + y;
        }
      }
    };
    if (base.IsPlain()) {
      add_up([&](float x) { return base.PlainExp(x, scale); });
    } else {
      add_up([&](float x) { return base.Exp(x, scale); });
    }
    return {max, static_cast<float>(LaneSum(PlacesSum(sums), 32) * base.correction)};
  }

  std::uint32_t words_[kChunkSlots][kVector];
};

}  // namespace softmax::kernels::cuda
