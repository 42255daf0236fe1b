#pragma once

#include <utility>

#include "kernels/cuda/core/mixed_store.cuh"

// Units: what one thread takes of neighbouring inner elements in one column, from a single element to a 16-byte vector.
// Each element of a unit belongs to another row.
namespace softmax::kernels::cuda {

template <typename In, int kUnit>
struct Unit {
  using C = ComputeOf<In>;
  static constexpr int kBytes = kUnit * static_cast<int>(sizeof(In));
  using Raw = std::conditional_t<
      kUnit == 1, In,
      std::conditional_t<kBytes == 4, std::uint32_t, std::conditional_t<kBytes == kVectorBytes, uint4, uint2>>>;

  static __device__ __forceinline__ Raw Load(const unsigned char* p) { return *reinterpret_cast<const Raw*>(p); }
  static __device__ __forceinline__ void Open(const Raw& raw, C (&x)[kUnit]) {
    In elements[kUnit];
    memcpy(elements, &raw, sizeof(raw));
#pragma unroll
    for (int e = 0; e < kUnit; ++e) x[e] = ToCompute(elements[e]);
  }
  static __device__ __forceinline__ Raw Close(const C (&x)[kUnit]) {
    Raw raw;
    if constexpr (sizeof(In) == 2 && kUnit > 1) {
      using Pair = std::conditional_t<std::is_same_v<In, __half>, __half2, __nv_bfloat162>;
      Pair pairs[kUnit / 2];
#pragma unroll
      for (int i = 0; i < kUnit / 2; ++i) {
        if constexpr (std::is_same_v<In, __half>) {
          pairs[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
        } else {
          pairs[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
        }
      }
      memcpy(&raw, pairs, sizeof(raw));
    } else {
      In elements[kUnit];
#pragma unroll
      for (int e = 0; e < kUnit; ++e) elements[e] = FromCompute<In, C>(x[e]);
      memcpy(&raw, elements, sizeof(raw));
    }
    return raw;
  }
};

// Stores a unit's results.
template <typename Out, typename C, int kUnit>
__device__ __forceinline__ void StoreUnit(Out* p, const C (&x)[kUnit]) {
  if constexpr (kUnit == 1) {
    *p = FromCompute<Out, C>(x[0]);
  } else {
    StorePiece<true>(p, 0, 0, kUnit, x);
  }
}

// The running maximum of units. 16-bit elements go two at a time; as with fmax, NaN loses.
template <typename In, int kUnit>
class UnitMaximum {
 public:
  using C = ComputeOf<In>;
  using Raw = typename Unit<In, kUnit>::Raw;

  __device__ __forceinline__ UnitMaximum() {
    if constexpr (kPairs > 0) {
      const uint4 nothing = NothingVector<In>();
#pragma unroll
      for (int i = 0; i < kPairs; ++i) memcpy(&pairs_[i], &nothing.x, sizeof(Pair));
    } else {
#pragma unroll
      for (int e = 0; e < kUnit; ++e) max_[e] = -Infinity<C>();
    }
  }
  __device__ __forceinline__ void Add(const Raw& raw) {
    if constexpr (kPairs > 0) {
      Pair pairs[kPairs];
      memcpy(pairs, &raw, sizeof(pairs));
#pragma unroll
      for (int i = 0; i < kPairs; ++i) pairs_[i] = __hmax2(pairs_[i], pairs[i]);
    } else {
      C x[kUnit];
      Unit<In, kUnit>::Open(raw, x);
#pragma unroll
      for (int e = 0; e < kUnit; ++e) max_[e] = fmax(max_[e], x[e]);
    }
  }
  __device__ __forceinline__ void Get(C (&max)[kUnit]) const {
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      if constexpr (kPairs > 0) {
        max[e] = fmax(-Infinity<C>(), ToCompute(e % 2 == 0 ? pairs_[e / 2].x : pairs_[e / 2].y));
      } else {
        max[e] = max_[e];
      }
    }
  }

 private:
  static constexpr int kPairs = sizeof(In) == 2 ? kUnit / 2 : 0;
  using Pair = std::conditional_t<std::is_same_v<In, __half>, __half2, __nv_bfloat162>;

  C max_[kPairs > 0 ? 1 : kUnit];
  Pair pairs_[kPairs > 0 ? kPairs : 1];
};

}  // namespace softmax::kernels::cuda
