#pragma once

#include "kernels/cuda/core/element.cuh"

// The order in which elements are the largest: by value, and equal ones by the smallest index. As integers, of which a
// larger one stands before a smaller one.
namespace softmax::kernels::cuda {

template <typename In>
using KeyOf = std::conditional_t<sizeof(In) == 8, std::uint64_t, std::uint32_t>;

template <typename In>
constexpr int kKeyBits = static_cast<int>(sizeof(In)) * 8;

__device__ __forceinline__ int LeadingZeros(std::uint32_t x) { return __clz(static_cast<int>(x)); }
__device__ __forceinline__ int LeadingZeros(std::uint64_t x) { return __clzll(static_cast<long long>(x)); }

// The key of an element that is not NaN; the two zeros have the same one.
template <typename In>
__device__ __forceinline__ KeyOf<In> MakeKey(In x) {
  using Bits = std::conditional_t<sizeof(In) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(In) == 4, std::uint32_t, std::uint16_t>>;
  Bits bits;
  memcpy(&bits, &x, sizeof(bits));
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kKeyBits<In> - 1));
  if (bits == kSign) bits = 0;
  return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
}

// The element of a key; of the two zeros the positive one, of 0 a NaN.
template <typename In>
__device__ __forceinline__ In ElementOfKey(KeyOf<In> key) {
  using Bits = std::conditional_t<sizeof(In) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(In) == 4, std::uint32_t, std::uint16_t>>;
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kKeyBits<In> - 1));
  const auto bits = static_cast<Bits>(key);
  const Bits element = (bits & kSign) != 0 ? static_cast<Bits>(bits & ~kSign) : static_cast<Bits>(~bits);
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

}  // namespace softmax::kernels::cuda
