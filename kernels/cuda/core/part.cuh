#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/core/element.cuh"
#include "kernels/cuda/core/math.cuh"
#include "kernels/cuda/core/vectors.cuh"

// The two steps that all take on a part of a row held as vectors (core/vectors.cuh): its statistics, and its results.
namespace softmax::kernels::cuda {

template <typename T>
constexpr DataType kTypeOf = std::is_same_v<T, float>           ? DataType::kFloat32
                             : std::is_same_v<T, __half>        ? DataType::kFloat16
                             : std::is_same_v<T, __nv_bfloat16> ? DataType::kBFloat16
                                                                : DataType::kFloat64;

// Calls f with a null pointer of the output type, any one.
template <typename F>
__device__ __forceinline__ void ForAnyType(DataType type, F f) {
  if (type == DataType::kFloat32) f(static_cast<float*>(nullptr));
  if (type == DataType::kFloat16) f(static_cast<__half*>(nullptr));
  if (type == DataType::kBFloat16) f(static_cast<__nv_bfloat16*>(nullptr));
  if (type == DataType::kFloat64) f(static_cast<double*>(nullptr));
}

// Output types that are stored quickly over another axis: the input's, for 16 bits fp32, for fp32 those of 16 bits.
template <typename In, typename Out>
constexpr bool kIsUsualOutput = std::is_same_v<In, Out> || (sizeof(In) == 2 && std::is_same_v<Out, float>) ||
                                (std::is_same_v<In, float> && sizeof(Out) == 2);
// Calls f with a null pointer of the output type, if it is one of these.
template <typename In, typename F>
__device__ __forceinline__ void ForUsualOutput(DataType type, F f) {
  ForAnyType(type, [&](auto* null) {
    if constexpr (kIsUsualOutput<In, std::remove_pointer_t<decltype(null)>>) f(null);
  });
}

// Calls f with a null pointer of the output type: In (kSame), or another one.
template <typename In, bool kSame, typename F>
__device__ __forceinline__ void ForOutputType(DataType type, F f) {
  if constexpr (kSame) {
    f(static_cast<In*>(nullptr));
  } else {
    ForAnyType(type, [&](auto* null) {
      using Out = std::remove_pointer_t<decltype(null)>;
      if constexpr (!std::is_same_v<In, Out>) f(null);
    });
  }
}

// The vector's elements, those at or beyond `valid` (counted from the vector's first) as -inf.
template <typename In>
__device__ __forceinline__ void UnpackMasked(const uint4& vector, int valid, ComputeOf<In> (&x)[Element<In>::kVector]) {
  Unpack<In>(vector, x);
  if (valid >= Element<In>::kVector) return;
#pragma unroll
  for (int e = 0; e < Element<In>::kVector; ++e) {
    if (e >= valid) x[e] = -Infinity<ComputeOf<In>>();
  }
}

// The sum of a lane's partial sums, one for each place within a vector. Places that are a power of two apart are added
// first, which gives the same bits if all places are rotated. In double, as all sums over places, lanes and chunks: a
// row with one large element would lose half an ulp of its result to each addition of floats. From place kUsed on: 0.
template <int kUsed = 8, typename C, int kVector>
__device__ __forceinline__ double PlacesSum(const C (&x)[kVector]) {
  double sums[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) sums[e] = x[e];
#pragma unroll
  for (int step = kVector / 2; step > 0; step /= 2) {
#pragma unroll
    for (int e = 0; e < step && e + step < kUsed; ++e) sums[e] += sums[e + step];
  }
  return sums[0];
}

// The maximum of 16-bit elements, two at a time. As with fmax, NaN loses.
template <typename In, int kSlots>
__device__ __forceinline__ float PairMaximum(const uint4* v) {
  using Pair = std::conditional_t<std::is_same_v<In, __half>, __half2, __nv_bfloat162>;
  const uint4 nothing = NothingVector<In>();
  Pair max;
  memcpy(&max, &nothing, sizeof(max));
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    Pair pairs[4];
    memcpy(pairs, &v[j], sizeof(pairs));
#pragma unroll
    for (int i = 0; i < 4; ++i) max = __hmax2(max, pairs[i]);
  }
  return fmaxf(ToCompute(max.x), ToCompute(max.y));
}

// A part is `kSlots` vectors per lane that start at v. kFull: all its elements count.
template <typename In, int kSlots, bool kFull>
__device__ __forceinline__ ComputeOf<In> LaneMaximum(const uint4* v, int n, Lanes lanes) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  if constexpr (kFull && sizeof(In) == 2) return PairMaximum<In, kSlots>(v);
  C max = -Infinity<C>();
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    C x[kVector];
    UnpackMasked<In>(v[j], kFull ? kVector : n - (j * lanes.count + lanes.lane) * kVector, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) max = Larger(max, x[e]);
  }
  return max;
}

// Adds the exponentials of a lane's elements up, by their place within the vector. kFast: the fast form serves.
template <typename In, int kSlots, bool kFull, bool kFast>
__device__ __forceinline__ void LaneExpSums(const uint4* v, int n, Lanes lanes, const ExpBase<ComputeOf<In>>& base,
                                            const Scale<ComputeOf<In>>& scale,
                                            ComputeOf<In> (&sums)[Element<In>::kVector]) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    C x[kVector];
    UnpackMasked<In>(v[j], kFull ? kVector : n - (j * lanes.count + lanes.lane) * kVector, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const C y = kFast ? base.Exp(x[e], scale) : scale.Exp(x[e], base.max_pre);
      sums[e] = j == 0 ? y : sums[e] + y;
    }
  }
}

// Statistics of the first n elements of a part. The sums run along a lane's slots for each place within a vector, then
// over the places, then over the lanes.
template <typename In, int kSlots>
__device__ __forceinline__ Stats<ComputeOf<In>> PartStats(const uint4* v, int n, Lanes lanes,
                                                          const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  const C max = LaneMax(LaneMaximum<In, kSlots, false>(v, n, lanes), lanes.count);
  const ExpBase<C> base(max, scale);
  C sums[Element<In>::kVector];
  if (IsFast(scale)) {
    LaneExpSums<In, kSlots, false, true>(v, n, lanes, base, scale, sums);
    return {max, static_cast<C>(LaneSum(PlacesSum(sums), lanes.count) * base.correction)};
  }
  LaneExpSums<In, kSlots, false, false>(v, n, lanes, base, scale, sums);
  return {max, static_cast<C>(LaneSum(PlacesSum(sums), lanes.count))};
}

// The same with a sum good to its last bit, for log-softmax rows of so few valid columns that the bound leaves no room
// for the usual errors of the sum. Elements that do not count are -inf, and those that do lie in the lanes' first
// vectors. What is 4, 2, 1 columns apart is added in this order, which does not mind if the vectors are rotated.
// kNarrow: the row may be a narrow one.
template <typename In, bool kNarrow>
__device__ __forceinline__ RowStats<ComputeOf<In>> PreciseStats(const uint4* v, Lanes lanes,
                                                                const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  const C max = LaneMax(LaneMaximum<In, 1, true>(v, 0, lanes), lanes.count);
  if constexpr (kNarrow && sizeof(C) == 4) {
    if (lanes.count * kVector <= kNarrowColumns) {
      TwoPart<C> sums[kVector];
      C x[kVector];
      Unpack<In>(v[0], x);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        sums[e].high = NarrowExp<In>(x[e], max, scale);
        if (lanes.count > 1) sums[e].Add(__shfl_xor_sync(0xffffffffu, sums[e].high, 1), C(0));
      }
      HalvingSum<kVector, 1>(sums);
      return {max, sums[0].high, sums[0].low};
    }
  }
  // One place after the other: such rows are rare, and all at once they would take more registers than all else.
  const C max_pre = MaxPre(max, scale);
  constexpr int kBits = kVector == 8 ? 3 : kVector / 2;
  TwoPart<C> waiting[kBits + 1];
#pragma unroll 1
  for (int k = 0; k < kVector; ++k) {
    TwoPart<C> sum;
    sum.high = scale.PreciseExp(ElementOf<In>(v[0], static_cast<int>(__brev(k) >> (32 - kBits))), max_pre);
    for (int offset = lanes.count >> 1; offset > 0; offset >>= 1) {
      sum.Add(__shfl_xor_sync(0xffffffffu, sum.high, offset), __shfl_xor_sync(0xffffffffu, sum.low, offset));
    }
    AddInTurn<kBits>(k, sum, waiting, [](TwoPart<C>& x, const TwoPart<C>& y) { x.Add(y.high, y.low); });
  }
  return {max, waiting[kBits].high + waiting[kBits].low, C(0)};
}

// Statistics of a row's first vectors, of which `n` elements count and `valid` are the row's; a whole warp calls it.
template <typename In, int kSlots, bool kNarrow>
__device__ __forceinline__ RowStats<ComputeOf<In>> FirstStats(bool log, const uint4* v, int n, std::int64_t valid,
                                                              Lanes lanes, const Scale<ComputeOf<In>>& scale) {
  const RowStats<ComputeOf<In>> stats = PartStats<In, kSlots>(v, n, lanes, scale);
  const bool precise = log && valid <= kPreciseColumns;
  if (!__any_sync(0xffffffffu, precise)) return stats;
  const uint4 masked[1] = {MaskFrom<In>(v[0], n - lanes.lane * Element<In>::kVector)};
  const RowStats<ComputeOf<In>> better = PreciseStats<In, kNarrow>(masked, lanes, scale);
  return precise ? better : stats;
}

// The results of a vector's elements as computed; those at or beyond `valid` are masked.
template <typename In, bool kFast>
__device__ __forceinline__ void ComputeResults(const uint4& vector, int valid,
                                               const Normalizer<ComputeOf<In>>& normalize,
                                               ComputeOf<In> (&x)[Element<In>::kVector]) {
  Unpack<In>(vector, x);
  normalize.template Apply<In, kFast>(x);
  if (valid >= Element<In>::kVector) return;
#pragma unroll
  for (int e = 0; e < Element<In>::kVector; ++e) {
    if (e >= valid) x[e] = normalize.masked;
  }
}

// The same, rounded to the type of the input.
template <typename In, bool kFast>
__device__ __forceinline__ uint4 VectorResults(const uint4& vector, int valid,
                                               const Normalizer<ComputeOf<In>>& normalize) {
  ComputeOf<In> x[Element<In>::kVector];
  ComputeResults<In, kFast>(vector, valid, normalize, x);
  return Pack<In>(x);
}

// The same for columns that all count, where the results have their plain form: Normalizer::HasPlainForm().
template <typename In>
__device__ __forceinline__ uint4 PlainResults(const uint4& vector, const Normalizer<ComputeOf<In>>& normalize) {
  ComputeOf<In> x[Element<In>::kVector];
  Unpack<In>(vector, x);
#pragma unroll
  for (int e = 0; e < Element<In>::kVector; ++e) {
    x[e] = normalize.base.PlainExp(x[e], normalize.scale) * normalize.factor;
  }
  return Pack<In>(x);
}
template <typename In>
__device__ __forceinline__ uint4 PlainLogResults(const uint4& vector, const Normalizer<ComputeOf<In>>& normalize) {
  static_assert(sizeof(In) == 2, "others have none");
  ComputeOf<In> x[Element<In>::kVector];
  Unpack<In>(vector, x);
  normalize.template ApplyPlain<In>(x);
  return Pack<In>(x);
}

// Calls f with what gives a vector's results where all of its columns count, in the plain form where there is one.
template <typename In, typename F>
__device__ __forceinline__ void WithResults(const Normalizer<ComputeOf<In>>& normalize, F f) {
  if (normalize.template HasPlainForm<In>()) {
    if constexpr (sizeof(In) == 2) {
      if (normalize.log) return f([&](const uint4& v) { return PlainLogResults<In>(v, normalize); });
    }
    return f([&](const uint4& v) { return PlainResults<In>(v, normalize); });
  }
  f([&](const uint4& v) { return VectorResults<In, true>(v, Element<In>::kVector, normalize); });
}

// Writes the results of a vector of another element size: `count` elements at p, as words if `wide`. A plain store of
// words would become single elements, as there are stores of elements beside it.
template <typename Out, int kVector>
__device__ __forceinline__ void StoreVector(Out* p, int count, bool wide, const Out (&y)[kVector]) {
  constexpr int kBytes = kVector * static_cast<int>(sizeof(Out));
  constexpr int kWordBytes = kBytes < 16 ? kBytes : 16;
  using W = typename Word<kWordBytes>::Type;
  if (wide && count >= kVector) {
    W words[kBytes / kWordBytes];
    memcpy(words, y, kBytes);
#pragma unroll
    for (int i = 0; i < kBytes / kWordBytes; ++i) __stwb(reinterpret_cast<W*>(p) + i, words[i]);
    return;
  }
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (e < count) p[e] = y[e];
  }
}

// Writes the results of n elements, of which the first `valid` are not masked, to p. Uses up v.
template <typename In, typename Out, int kSlots>
__device__ __forceinline__ void WritePart(Out* p, int n, int valid, bool wide, Lanes lanes, uint4 (&v)[kSlots],
                                          const Normalizer<ComputeOf<In>>& normalize) {
  constexpr int kVector = Element<In>::kVector;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    const int first = (j * lanes.count + lanes.lane) * kVector;
    ComputeOf<In> x[kVector];
    ComputeResults<In, false>(v[j], valid - first, normalize, x);
    Out y[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) y[e] = FromCompute<Out, ComputeOf<In>>(x[e]);
    if constexpr (sizeof(In) == sizeof(Out)) {
      memcpy(&v[j], y, sizeof(y));
    } else {
      StoreVector(p + first, n - first, wide, y);
    }
  }
  if constexpr (sizeof(In) == sizeof(Out)) StorePart(p, n, wide, lanes, v);
}

template <typename S>
__device__ __forceinline__ std::int64_t ValidLength(const S& segment, std::int64_t row) {
  if (segment.lengths == nullptr) return segment.cols;
  const std::int64_t length = segment.lengths[row];
  return length < segment.cols ? length : segment.cols;
}

}  // namespace softmax::kernels::cuda
