#pragma once

#include "kernels/cuda/core/part.cuh"

// Results as elements of another type than the input's. A piece is what one access moves at most on either side: 16
// bytes of the wider type. Input and output miss the boundaries alike, counted in elements, so pieces that begin on the
// input's vectors, or within them, are aligned in the output (AreAlike() in core/work.h).
namespace softmax::kernels::cuda {

// The elements x, rounded.
template <typename Out, typename C, int kCount>
__device__ __forceinline__ void RoundTo(const C (&x)[kCount], Out (&y)[kCount]) {
  if constexpr (sizeof(Out) == 2 && sizeof(C) == 4 && kCount % 2 == 0) {
#pragma unroll
    for (int e = 0; e < kCount; e += 2) StorePair(y + e, x[e], x[e + 1]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) y[e] = FromCompute<Out, C>(x[e]);
  }
}

// Stores those of the elements x, which begin at element `at`, that lie in [begin, end). kWhole: all of them, or none.
template <bool kWhole, typename Out, typename C, int kCount>
__device__ __forceinline__ void StorePiece(Out* base, int at, int begin, int end, const C (&x)[kCount]) {
  alignas(16) Out y[kCount];
  RoundTo(x, y);
  if constexpr (kWhole) {
    if (at < end) StoreVector(base + at, kCount, true, y);
  } else if (at >= begin && at + kCount <= end) {
    StoreVector(base + at, kCount, true, y);
  } else if (at < end) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if (at + e >= begin && at + e < end) base[at + e] = y[e];
    }
  }
}

// Stores the results x of each lane's vector, which begins at element `at`, as far as they lie in [begin, end).
// kExchanges: an even lane's vector is followed by the next lane's, and where results take twice the room, the two
// exchange halves, so that each access of the warp covers whole sectors; a whole warp calls it. kWhole: rows begin on
// boundaries and are whole vectors.
template <typename In, bool kExchanges, bool kWhole, typename Out>
__device__ __forceinline__ void StoreMixed(Out* base, int at, int begin, int end,
                                           const ComputeOf<In> (&x)[Element<In>::kVector]) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  if constexpr (kExchanges && sizeof(Out) == 2 * sizeof(In)) {
    constexpr int kHalf = kVector / 2;
    const bool is_odd = threadIdx.x % 2 != 0;
    C first[kHalf];   // of the even lane's vector
    C second[kHalf];  // of the odd lane's
#pragma unroll
    for (int e = 0; e < kHalf; ++e) {
      const C other = __shfl_xor_sync(0xffffffffu, is_odd ? x[e] : x[kHalf + e], 1);
      first[e] = is_odd ? other : x[e];
      second[e] = is_odd ? x[kHalf + e] : other;
    }
    const int even = is_odd ? at - kVector + kHalf : at;
    StorePiece<kWhole>(base, even, begin, end, first);
    StorePiece<kWhole>(base, even + kVector, begin, end, second);
  } else {
    constexpr int kPiece = PieceElements(sizeof(In), sizeof(Out));
#pragma unroll
    for (int first = 0; first < kVector; first += kPiece) {
      C piece[kPiece];
#pragma unroll
      for (int e = 0; e < kPiece; ++e) piece[e] = x[first + e];
      StorePiece<kWhole>(base, at + first, begin, end, piece);
    }
  }
}

// By a whole warp: stores the results, kAtOnce pieces at a time, of elements [begin, end), of which those below
// `valid_end` are not masked, from where they lie in shared memory.
template <int kAtOnce, typename In, typename Out>
__device__ __forceinline__ void StoreMixedRow(const In* from, Out* base, int begin, int end, int valid_end,
                                              const Normalizer<ComputeOf<In>>& normalize) {
  using C = ComputeOf<In>;
  constexpr int kPiece = PieceElements(sizeof(In), sizeof(Out));
  constexpr int kStep = 32 * kPiece;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Whole pieces, then what is left at both ends.
  const int body = (begin + kPiece - 1) / kPiece * kPiece;
  const int body_end = min(end, valid_end) / kPiece * kPiece;
#pragma unroll kAtOnce
  for (int at = body + lane * kPiece; at < body_end; at += kStep) {
    using W = typename Word<kPiece* static_cast<int>(sizeof(In))>::Type;
    const W word = *reinterpret_cast<const W*>(from + at);
    In elements[kPiece];
    memcpy(elements, &word, sizeof(word));
    C x[kPiece];
#pragma unroll
    for (int e = 0; e < kPiece; ++e) x[e] = ToCompute(elements[e]);
    normalize.template Apply<In, true>(x);
    StorePiece<true>(base, at, 0, body_end, x);
  }
  const auto store_one = [&](int i) {
    C x[1] = {ToCompute(from[i])};
    normalize.template Apply<In, true>(x);
    base[i] = FromCompute<Out, C>(i < valid_end ? x[0] : normalize.masked);
  };
  for (int i = begin + lane; i < min(body, end); i += 32) store_one(i);
  for (int i = max(body, body_end) + lane; i < end; i += 32) store_one(i);
}

}  // namespace softmax::kernels::cuda
