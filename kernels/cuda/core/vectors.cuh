#pragma once

#include <cstdint>

#include "kernels/cuda/core/element.cuh"

// Moves part of a row between memory and a group of lanes: vector v of the part (16 bytes, counted from its first
// column) belongs to lane v mod lanes, slot v / lanes, at whatever address it starts. Memory is read and written in
// aligned 16-byte accesses; where the part is not aligned, the lanes shift bytes among themselves. So an element's lane
// depends on its column alone, and no byte outside the row is touched.
//
// Loads are plain (never ld.global.nc): the memory may be mapped host memory that the host rewrites between launches.
// A launch starts with an empty L1, and within a launch nobody rewrites what a block has still to read.
namespace softmax::kernels::cuda {

struct Lanes {
  int lane;   // within the group
  int count;  // a power of two
};

// Bytes [shift, shift + 16) of the 32 bytes lo, hi; shift in 0..16.
__device__ __forceinline__ uint4 ShiftBytes(uint4 lo, uint4 hi, int shift) {
  std::uint32_t w[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
  if (shift & 16) return hi;
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = (shift & 8) ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = (shift & 4) ? w[i + 1] : w[i];
  const int bits = (shift & 3) * 8;
  return make_uint4(__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
                    __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits));
}

__device__ __forceinline__ uint4 ShuffleVector(uint4 v, int source, int width) {
  v.x = __shfl_sync(0xffffffffu, v.x, source, width);
  v.y = __shfl_sync(0xffffffffu, v.y, source, width);
  v.z = __shfl_sync(0xffffffffu, v.z, source, width);
  v.w = __shfl_sync(0xffffffffu, v.w, source, width);
  return v;
}

// Elements [first, last) of the vector at p; the others are zero, and not read.
template <typename T>
__device__ __forceinline__ uint4 LoadRange(const T* p, int first, int last) {
  constexpr int kVector = VectorElements(sizeof(T));
  T elements[kVector];
  memset(elements, 0, sizeof(elements));
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (e >= first && e < last) elements[e] = p[e];
  }
  uint4 v;
  memcpy(&v, elements, sizeof(v));
  return v;
}

template <typename T>
__device__ __forceinline__ void StoreRange(T* p, uint4 v, int first, int last) {
  constexpr int kVector = VectorElements(sizeof(T));
  T elements[kVector];
  memcpy(elements, &v, sizeof(v));
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (e >= first && e < last) p[e] = elements[e];
  }
}

// How far an address is past a 16-byte boundary, in elements.
template <typename T>
__device__ __forceinline__ int Misalignment(const T* p) {
  return static_cast<int>((reinterpret_cast<std::uintptr_t>(p) & 15) / sizeof(T));
}

// What may be read beside a part of a row: whole aligned vectors are then read where it begins or ends inside one.
struct Around {
  bool before;  // the vector that holds the first element
  bool after;   // the vector that holds the last element
};

// Loads the aligned vectors that hold elements [skip, end) after `p` (aligned): kCount vectors per lane, of which lane
// 0 alone needs the last when kCount is one more than the slots.
template <int kSlots, int kCount, typename T>
__device__ __forceinline__ void LoadAligned(const T* p, int skip, int end, Around around, Lanes lanes,
                                            uint4 (&w)[kCount]) {
  constexpr int kVector = VectorElements(sizeof(T));
  const int first = around.before ? 0 : skip;
  const int whole = around.after ? end : end / kVector * kVector;  // vectors that start below it are read whole
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const int at = (j * lanes.count + lanes.lane) * kVector;
    w[j] = make_uint4(0, 0, 0, 0);
    if (at < whole && at >= first && (j < kSlots || lanes.lane == 0)) {
      w[j] = *reinterpret_cast<const uint4*>(p + at);
    }
  }
  if (first > 0 && lanes.lane == 0) w[0] = LoadRange(p, skip, min(end, kVector));
  const int tail = end / kVector;
  // With nothing after `skip` there may still be what is before it: a part's first vector, which the row ends in.
  const bool cut = whole < end && (first == 0 || (tail > 0 && end > skip));
  if (cut && (tail & (lanes.count - 1)) == lanes.lane) {
    const uint4 last = LoadRange(p + tail * kVector, 0, end % kVector);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (j * lanes.count + lanes.lane == tail) w[j] = last;
    }
  }
}

// Shifts aligned vectors (one more than the slots) so that vector 0 begins `skip` elements later.
template <int kSlots, typename T>
__device__ __forceinline__ void ShiftVectors(const uint4* w, uint4 extra, int skip, Lanes lanes, uint4* v) {
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    const uint4 after = j + 1 < kSlots ? w[j + 1] : extra;
    const uint4 mine = lanes.lane == 0 ? after : w[j];
    const uint4 next = ShuffleVector(mine, (lanes.lane + 1) & (lanes.count - 1), lanes.count);
    v[j] = ShiftBytes(w[j], next, skip * static_cast<int>(sizeof(T)));
  }
}

// Loads the part that starts at p and has n elements. `wide`: p is aligned for every group of this warp.
template <int kSlots, typename T>
__device__ __forceinline__ void LoadPart(const T* p, int n, Around around, bool wide, Lanes lanes, uint4 (&v)[kSlots]) {
  if (wide) {
    LoadAligned<kSlots>(p, 0, n, around, lanes, v);
    return;
  }
  const int skip = Misalignment(p);
  uint4 w[kSlots + 1];
  LoadAligned<kSlots>(p - skip, skip, n > 0 ? skip + n : 0, around, lanes, w);
  ShiftVectors<kSlots, T>(w, w[kSlots], skip, lanes, v);
}

// Stores n elements to p from vectors of the same element size.
template <int kSlots, typename T>
__device__ __forceinline__ void StorePart(T* p, int n, bool wide, Lanes lanes, const uint4 (&v)[kSlots]) {
  constexpr int kVector = VectorElements(sizeof(T));
  const int skip = wide ? 0 : Misalignment(p);
  T* const base = p - skip;
  const int end = n > 0 ? skip + n : 0;
  const int tail = end / kVector;
  const bool cut = end % kVector != 0 && (tail > 0 || skip == 0) && end > skip;
  uint4 last = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int j = 0; j <= kSlots; ++j) {
    if (wide && j == kSlots) break;
    uint4 out = v[j < kSlots ? j : kSlots - 1];
    if (!wide) {
      const uint4 before = v[j > 0 ? j - 1 : 0];
      const uint4 mine = lanes.lane == lanes.count - 1 ? before : out;
      const uint4 previous = ShuffleVector(mine, (lanes.lane - 1) & (lanes.count - 1), lanes.count);
      out = ShiftBytes(previous, out, 16 - skip * static_cast<int>(sizeof(T)));
    }
    const int k = j * lanes.count + lanes.lane;
    if (j == kSlots && lanes.lane != 0) continue;
    if (k < tail && k * kVector >= skip) *reinterpret_cast<uint4*>(base + k * kVector) = out;
    if (j == 0 && skip > 0 && k == 0) StoreRange(base, out, skip, min(end, kVector));
    if (k == tail) last = out;
  }
  if (cut && (tail & (lanes.count - 1)) == lanes.lane) {
    StoreRange(base + tail * kVector, last, 0, end % kVector);
  }
}

}  // namespace softmax::kernels::cuda
