#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/vectors.cuh"

// The two steps every regime takes on a part of a row held as vectors (see vectors.cuh): its statistics, and its
// results.
namespace softmax::kernels::cuda {

// Calls f with a null pointer of the output type. kSame: it is In, known at compile time.
template <typename In, bool kSame, typename F>
__device__ __forceinline__ void ForOutputType(DataType type, F f) {
  if constexpr (kSame) {
    f(static_cast<In*>(nullptr));
  } else {
    if constexpr (!std::is_same_v<In, float>) {
      if (type == DataType::kFloat32) f(static_cast<float*>(nullptr));
    }
    if constexpr (!std::is_same_v<In, __half>) {
      if (type == DataType::kFloat16) f(static_cast<__half*>(nullptr));
    }
    if constexpr (!std::is_same_v<In, __nv_bfloat16>) {
      if (type == DataType::kBFloat16) f(static_cast<__nv_bfloat16*>(nullptr));
    }
    if constexpr (!std::is_same_v<In, double>) {
      if (type == DataType::kFloat64) f(static_cast<double*>(nullptr));
    }
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

// As a tree: short chains for the hardware, and small rounding errors.
template <typename C, int kVector>
__device__ __forceinline__ C VectorSum(C (&x)[kVector]) {
#pragma unroll
  for (int step = 1; step < kVector; step *= 2) {
#pragma unroll
    for (int e = 0; e + step < kVector; e += 2 * step) x[e] += x[e + step];
  }
  return x[0];
}

template <typename In, int kSlots>
__device__ __forceinline__ ComputeOf<In> PartMax(const uint4 (&v)[kSlots], int n, Lanes lanes) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  C max = -Infinity<C>();
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    C x[kVector];
    UnpackMasked<In>(v[j], n - (j * lanes.count + lanes.lane) * kVector, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) max = fmax(max, x[e]);
  }
  return LaneMax(max, lanes.count);
}

// Statistics of the first n elements. The sums run along a lane's slots, then over the lanes.
template <typename In, int kSlots>
__device__ __forceinline__ Stats<ComputeOf<In>> PartStats(const uint4 (&v)[kSlots], int n, Lanes lanes,
                                                          const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  const C max = PartMax<In>(v, n, lanes);
  const C max_pre = MaxPre(max, scale);
  C sum = 0;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    C x[kVector];
    UnpackMasked<In>(v[j], n - (j * lanes.count + lanes.lane) * kVector, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) x[e] = scale.Exp(x[e], max_pre);
    sum += VectorSum(x);
  }
  return {max, LaneSum(sum, lanes.count)};
}

// The same with a sum good to its last bit. The logarithm of a few columns is so small that its bound leaves no room
// for the usual errors of the sum.
template <typename In, int kSlots>
__device__ __forceinline__ Stats<ComputeOf<In>> PreciseStats(const uint4 (&v)[kSlots], int n, Lanes lanes,
                                                             const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  const C max = PartMax<In>(v, n, lanes);
  const C max_pre = MaxPre(max, scale);
  TwoPart<C> sum;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    C x[kVector];
    UnpackMasked<In>(v[j], n - (j * lanes.count + lanes.lane) * kVector, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum.Add(scale.PreciseExp(x[e], max_pre), C(0));
  }
  return {max, LaneSum(sum, lanes.count)};
}

// Statistics of a small row.
template <typename In, int kSlots>
__device__ __forceinline__ Stats<ComputeOf<In>> SmallStats(const DeviceSegment& segment, const uint4 (&v)[kSlots],
                                                           int n, Lanes lanes, const Scale<ComputeOf<In>>& scale) {
  if constexpr (kSlots == kPreciseSlots) {
    if (segment.log != 0 && segment.cols <= kPreciseColumns) {
      return PreciseStats<In>(v, n, lanes, scale);
    }
  }
  return PartStats<In>(v, n, lanes, scale);
}

template <typename In, typename Out>
__device__ __forceinline__ void VectorResults(const uint4& vector, int valid,
                                              const Normalizer<ComputeOf<In>>& normalize,
                                              Out (&y)[Element<In>::kVector]) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  C x[kVector];
  Unpack<In>(vector, x);
  if (normalize.log) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) x[e] = normalize.Log(x[e]);
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e) x[e] = normalize.Exp(x[e]);
  }
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    y[e] = FromCompute<Out, C>(e < valid ? x[e] : normalize.masked);
  }
}

// Writes the results of a vector of another element size: `count` elements at p, all of them as words if `wide`.
template <typename Out, int kVector>
__device__ __forceinline__ void StoreVector(Out* p, int count, bool wide, const Out (&y)[kVector]) {
  constexpr int kBytes = kVector * static_cast<int>(sizeof(Out));
  constexpr int kWordBytes = kBytes < 16 ? kBytes : 16;
  using W = typename Word<kWordBytes>::Type;
  if (wide && count >= kVector) {
    W words[kBytes / kWordBytes];
    memcpy(words, y, kBytes);
#pragma unroll
    for (int i = 0; i < kBytes / kWordBytes; ++i) reinterpret_cast<W*>(p)[i] = words[i];
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
    Out y[kVector];
    VectorResults<In, Out>(v[j], valid - first, normalize, y);
    if constexpr (sizeof(In) == sizeof(Out)) {
      memcpy(&v[j], y, sizeof(y));
    } else {
      StoreVector(p + first, n - first, wide, y);
    }
  }
  if constexpr (sizeof(In) == sizeof(Out)) StorePart(p, n, wide, lanes, v);
}

__device__ __forceinline__ std::int64_t ValidLength(const DeviceSegment& segment, std::int64_t row) {
  if (segment.lengths == nullptr) return segment.cols;
  const std::int64_t length = segment.lengths[row];
  return length < segment.cols ? length : segment.cols;
}

}  // namespace softmax::kernels::cuda
