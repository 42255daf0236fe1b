#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/core/work.h"

// Element types: conversions to and from the type computed in, one rounding each, and 16-byte vectors of them.
namespace softmax::kernels::cuda {

template <typename T>
struct Element {
  using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
  static constexpr int kVector = VectorElements(sizeof(T));
  static constexpr int kChunk = ChunkColumns(sizeof(T));
  static constexpr int kSmall = SmallColumns(sizeof(T));
};
template <typename T>
using ComputeOf = typename Element<T>::Compute;

__device__ __forceinline__ float ToCompute(float x) { return x; }
__device__ __forceinline__ double ToCompute(double x) { return x; }
__device__ __forceinline__ float ToCompute(__half x) { return __half2float(x); }
__device__ __forceinline__ float ToCompute(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename Out, typename C>
__device__ __forceinline__ Out FromCompute(C x) {
  return static_cast<Out>(x);
}
template <>
__device__ __forceinline__ __half FromCompute<__half, float>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __half FromCompute<__half, double>(double x) {
  return __double2half(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromCompute<__nv_bfloat16, float>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromCompute<__nv_bfloat16, double>(double x) {
  return __double2bfloat16(x);
}

// An N-byte group of elements that moves as one access.
template <int kBytes>
struct Word;
template <>
struct Word<4> {
  using Type = std::uint32_t;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

template <typename T>
__device__ __forceinline__ void Unpack(const uint4& vector, ComputeOf<T> (&x)[Element<T>::kVector]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    // One instruction an element; the conversion of the upper half of a word takes two.
    const std::uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
    T elements[Element<T>::kVector];
    memcpy(elements, &vector, sizeof(vector));
#pragma unroll
    for (int e = 0; e < Element<T>::kVector; ++e) x[e] = ToCompute(elements[e]);
  }
}

// Two 16-bit elements as one word.
template <typename T>
__device__ __forceinline__ void LoadPair(const T* p, float* first, float* second) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const Pair pair = *reinterpret_cast<const Pair*>(p);
  *first = ToCompute(pair.x);
  *second = ToCompute(pair.y);
}
template <typename T>
__device__ __forceinline__ void StorePair(T* p, float first, float second) {
  if constexpr (std::is_same_v<T, __half>) {
    *reinterpret_cast<__half2*>(p) = __floats2half2_rn(first, second);
  } else {
    *reinterpret_cast<__nv_bfloat162*>(p) = __floats2bfloat162_rn(first, second);
  }
}

// One element of a vector, where it is not a constant which: a place of an array would lie in memory.
template <typename T>
__device__ __forceinline__ ComputeOf<T> ElementOf(const uint4& vector, int place) {
  ComputeOf<T> x[Element<T>::kVector];
  Unpack<T>(vector, x);
#pragma unroll
  for (int e = 1; e < Element<T>::kVector; ++e) x[0] = e == place ? x[e] : x[0];
  return x[0];
}

// A vector of -inf.
template <typename T>
__device__ __forceinline__ uint4 NothingVector() {
  if constexpr (sizeof(T) == 8) return make_uint4(0, 0xfff00000u, 0, 0xfff00000u);
  const std::uint32_t word = std::is_same_v<T, __half>          ? 0xfc00fc00u
                             : std::is_same_v<T, __nv_bfloat16> ? 0xff80ff80u
                                                                : 0xff800000u;
  return make_uint4(word, word, word, word);
}

// Replaces the elements at and beyond `first` by -inf.
template <typename T>
__device__ __forceinline__ uint4 MaskFrom(const uint4& vector, int first) {
  T elements[Element<T>::kVector];
  T nothing[Element<T>::kVector];
  const uint4 other = NothingVector<T>();
  memcpy(elements, &vector, sizeof(vector));
  memcpy(nothing, &other, sizeof(other));
#pragma unroll
  for (int e = 0; e < Element<T>::kVector; ++e) {
    if (e >= first) elements[e] = nothing[e];
  }
  uint4 masked;
  memcpy(&masked, elements, sizeof(masked));
  return masked;
}

// Makes the compiler forget where a vector came from, so that it unpacks it again instead of keeping the elements.
__device__ __forceinline__ void Opaque(uint4& v) { asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

// The elements x, rounded, as one 16-byte vector.
template <typename T>
__device__ __forceinline__ uint4 Pack(const ComputeOf<T> (&x)[Element<T>::kVector]) {
  uint4 vector;
  if constexpr (std::is_same_v<T, __half>) {
    __half2 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    memcpy(&vector, pairs, sizeof(vector));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    __nv_bfloat162 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
    memcpy(&vector, pairs, sizeof(vector));
  } else {
    memcpy(&vector, x, sizeof(vector));
  }
  return vector;
}

}  // namespace softmax::kernels::cuda
