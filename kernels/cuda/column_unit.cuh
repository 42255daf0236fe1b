#pragma once

#include <utility>

#include "kernels/cuda/part.cuh"

// Units: what one thread takes of neighbouring inner elements in one column, a single element or a 16-byte vector. Each
// element of a unit belongs to another row.
namespace softmax::kernels::cuda {

template <typename In, int kUnit>
struct Unit {
  using C = ComputeOf<In>;
  static constexpr int kBytes = kUnit * static_cast<int>(sizeof(In));
  using Raw = std::conditional_t<kUnit == 1, In, std::conditional_t<kBytes == kVectorBytes, uint4, uint2>>;

  static __device__ __forceinline__ Raw Load(const unsigned char* p) { return *reinterpret_cast<const Raw*>(p); }
  static __device__ __forceinline__ void Open(const Raw& raw, C (&x)[kUnit]) {
    In elements[kUnit];
    memcpy(elements, &raw, sizeof(raw));
#pragma unroll
    for (int e = 0; e < kUnit; ++e) x[e] = ToCompute(elements[e]);
  }
  static __device__ __forceinline__ Raw Close(const C (&x)[kUnit]) {
    if constexpr (kBytes == kVectorBytes) {
      return Pack<In>(x);
    } else {
      In elements[kUnit];
#pragma unroll
      for (int e = 0; e < kUnit; ++e) elements[e] = FromCompute<In, C>(x[e]);
      Raw raw;
      memcpy(&raw, elements, sizeof(raw));
      return raw;
    }
  }
};

// The running maximum of units. 16-bit elements go two at a time; as with fmax, NaN loses.
template <typename In, int kUnit>
class UnitMaximum {
 public:
  using C = ComputeOf<In>;
  using Raw = typename Unit<In, kUnit>::Raw;

  __device__ __forceinline__ void Add(const Raw& raw) {
    if constexpr (kPairs) {
      Pair pairs[4];
      memcpy(pairs, &raw, sizeof(pairs));
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs_[i] = __hmax2(pairs_[i], pairs[i]);
    } else {
      C x[kUnit];
      Unit<In, kUnit>::Open(raw, x);
      AddOpen(x);
    }
  }
  __device__ __forceinline__ void AddOpen(const C (&x)[kUnit]) {
#pragma unroll
    for (int e = 0; e < kUnit; ++e) max_[e] = fmax(max_[e], x[e]);
  }
  __device__ __forceinline__ void Get(C (&max)[kUnit]) const {
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      max[e] = max_[e];
      if constexpr (kPairs) max[e] = fmax(max[e], ToCompute(e % 2 == 0 ? pairs_[e / 2].x : pairs_[e / 2].y));
    }
  }
  __device__ __forceinline__ UnitMaximum() {
#pragma unroll
    for (int e = 0; e < kUnit; ++e) max_[e] = -Infinity<C>();
    const uint4 nothing = NothingVector<In>();
    memcpy(pairs_, &nothing, sizeof(nothing));
  }

 private:
  static constexpr bool kPairs = sizeof(In) == 2 && kUnit > 1;
  using Pair = std::conditional_t<std::is_same_v<In, __half>, __half2, __nv_bfloat162>;

  C max_[kUnit];
  Pair pairs_[4];
};

// Copies of the normalizers of a unit's rows, so that what they hold can stay in registers.
template <typename C, typename Index>
struct UnitNormalizers;
template <typename C, std::size_t... kIndex>
struct UnitNormalizers<C, std::index_sequence<kIndex...>> {
  const Normalizer<C> of[sizeof...(kIndex)];

  __device__ __forceinline__ explicit UnitNormalizers(const Normalizer<C>* rows) : of{rows[kIndex]...} {}
};

// What the exponentials of a unit are taken against, given the rows' maxima.
template <typename C, typename Index>
struct UnitBases;
template <typename C, std::size_t... kIndex>
struct UnitBases<C, std::index_sequence<kIndex...>> {
  const ExpBase<C> of[sizeof...(kIndex)];

  __device__ __forceinline__ UnitBases(const C* maxima, const Scale<C>& scale)
      : of{ExpBase<C>(maxima[kIndex], scale)...} {}
};

// How results are computed: what is the same for all of a segment, and keeps branches out of the loops when it is
// known.
enum class UnitForm { kExp, kLog, kPlainLog };

// The results of a unit.
template <typename In, UnitForm kForm, int kUnit>
__device__ __forceinline__ void ApplyUnit(const Normalizer<ComputeOf<In>>* of, ComputeOf<In> (&x)[kUnit]) {
#pragma unroll
  for (int e = 0; e < kUnit; ++e) {
    __builtin_assume(of[e].log == (kForm != UnitForm::kExp));
    if constexpr (kForm != UnitForm::kExp && sizeof(In) == 2) {
      __builtin_assume((of[e].scale.plain != 0) == (kForm == UnitForm::kPlainLog));
    }
    ComputeOf<In> one[1] = {x[e]};
    of[e].template Apply<In, true>(one);
    x[e] = one[0];
  }
}

}  // namespace softmax::kernels::cuda
