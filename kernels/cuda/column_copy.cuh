#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/work.h"

// Moves lines (equally long stretches of bytes) between memory and shared memory in aligned 16-byte accesses. A line
// keeps its place relative to a 16-byte boundary, so nothing has to be shifted.
namespace softmax::kernels::cuda {

struct Lines {
  std::uintptr_t memory;  // the first line's
  std::int64_t memory_pitch;
  unsigned char* shared;  // as far past a 16-byte boundary as the line in memory; so for every line
  int shared_pitch;
  int bytes;  // of a line
  int count;
};

// n / d for n * d < 2^32.
struct Divider {
  std::uint32_t magic;  // 0: d is 1

  __device__ explicit Divider(int d) : magic(0xffffffffu / static_cast<std::uint32_t>(d) + 1) {}
  __device__ __forceinline__ int Of(int n) const {
    return magic == 0 ? n : static_cast<int>(__umulhi(static_cast<std::uint32_t>(n), magic));
  }
};

__device__ __forceinline__ void CopyAsync(unsigned char* shared, std::uintptr_t memory) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(memory)
               : "memory");
#else
  *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(memory);
#endif
}
__device__ __forceinline__ void CommitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kPending>
__device__ __forceinline__ void WaitCopiesButLast() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
// Waits for the thread's own copies, all but the last `pending` groups of them (or fewer).
__device__ __forceinline__ void WaitCopies(int pending) {
  switch (pending) {
    case 0:
      return WaitCopiesButLast<0>();
    case 1:
      return WaitCopiesButLast<1>();
    case 2:
      return WaitCopiesButLast<2>();
    case 3:
      return WaitCopiesButLast<3>();
    case 4:
    case 5:
      return WaitCopiesButLast<4>();
    default:
      return WaitCopiesButLast<6>();
  }
}

// Calls f(memory, shared, line_begin, line_end) for every aligned 16 bytes that hold some of a line.
template <typename F>
__device__ __forceinline__ void ForVectors(const Lines& lines, F f) {
  constexpr std::uintptr_t kMask = kVectorBytes - 1;
  const bool aligned =
      ((lines.memory | static_cast<std::uintptr_t>(lines.memory_pitch) | static_cast<unsigned>(lines.bytes)) & kMask) ==
      0;
  const int vectors = (lines.bytes + (aligned ? 0 : 2 * static_cast<int>(kMask))) / kVectorBytes;
  const Divider divider(vectors);
  for (int k = static_cast<int>(threadIdx.x); k < lines.count * vectors; k += kBlockThreads) {
    const int line = divider.Of(k);
    const int offset = (k - line * vectors) * kVectorBytes;
    const std::uintptr_t begin = lines.memory + static_cast<std::uintptr_t>(line * lines.memory_pitch);
    const std::uintptr_t end = begin + static_cast<unsigned>(lines.bytes);
    const std::uintptr_t vector = (begin & ~kMask) + static_cast<unsigned>(offset);
    if (vector >= end) continue;
    unsigned char* const shared = lines.shared + line * lines.shared_pitch - (begin & kMask) + offset;
    f(vector, shared, begin, end);
  }
}

// Reads the lines. Bytes beside a line come along where they lie within [begin, end), which must hold the lines; no
// others are read.
template <typename T>
__device__ __forceinline__ void ReadLines(const Lines& lines, std::uintptr_t begin, std::uintptr_t end) {
  ForVectors(lines, [&](std::uintptr_t vector, unsigned char* shared, std::uintptr_t, std::uintptr_t) {
    if (vector >= begin && vector + kVectorBytes <= end) {
      CopyAsync(shared, vector);
      return;
    }
    for (int i = 0; i < kVectorBytes; i += static_cast<int>(sizeof(T))) {
      const std::uintptr_t element = vector + static_cast<unsigned>(i);
      if (element >= begin && element < end) {
        *reinterpret_cast<T*>(shared + i) = *reinterpret_cast<const T*>(element);
      }
    }
  });
}

// Writes the lines and nothing else.
template <typename T>
__device__ __forceinline__ void WriteLines(const Lines& lines) {
  ForVectors(lines, [&](std::uintptr_t vector, const unsigned char* shared, std::uintptr_t begin, std::uintptr_t end) {
    if (vector >= begin && vector + kVectorBytes <= end) {
      *reinterpret_cast<uint4*>(vector) = *reinterpret_cast<const uint4*>(shared);
      return;
    }
    for (int i = 0; i < kVectorBytes; i += static_cast<int>(sizeof(T))) {
      const std::uintptr_t element = vector + static_cast<unsigned>(i);
      if (element >= begin && element < end) {
        *reinterpret_cast<T*>(element) = *reinterpret_cast<const T*>(shared + i);
      }
    }
  });
}

}  // namespace softmax::kernels::cuda
