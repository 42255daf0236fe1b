#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/work.h"

// Moves lines (equally long stretches of bytes) between memory and shared memory in aligned 16-byte accesses. A line
// keeps its place relative to a 16-byte boundary, so nothing has to be shifted.
namespace softmax::kernels::cuda {

struct Lines {
  std::uintptr_t memory;  // the first line's
  std::int64_t memory_pitch;
  unsigned char* shared;  // as far past a 16-byte boundary as the line in memory; so for every line
  int shared_pitch;
  int bytes;     // of a line
  int count;     // 1: the pitches do not count
  Divisor side;  // aligned vectors that a line may have
};

__device__ __forceinline__ int Quotient(int n, Divisor d) {
  return d.magic == 0 ? n : static_cast<int>(__umulhi(static_cast<std::uint32_t>(n), d.magic));
}

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

// Calls f(memory, shared, line_begin, line_end) for every aligned 16 bytes that hold some of a line. Threads stay with
// their place in the lines.
template <typename F>
__device__ __forceinline__ void ForVectors(const Lines& lines, F f) {
  constexpr std::uintptr_t kMask = kVectorBytes - 1;
  const int thread = static_cast<int>(threadIdx.x);
  if (lines.count == 1) {
    const int skip = static_cast<int>(lines.memory & kMask);
    const std::uintptr_t end = lines.memory + static_cast<unsigned>(lines.bytes);
#pragma unroll 4
    for (int k = thread * kVectorBytes - skip; k < lines.bytes; k += kBlockThreads * kVectorBytes) {
      f(lines.memory + static_cast<std::uintptr_t>(static_cast<std::int64_t>(k)), lines.shared + k, lines.memory, end);
    }
    return;
  }
  const int vectors = static_cast<int>(lines.side.value);
  const int side = Quotient(kBlockThreads, lines.side);
  int line = Quotient(thread, lines.side);
  const int offset = (thread - line * vectors) * kVectorBytes;
  if (line >= side) return;
  std::uintptr_t begin = lines.memory + static_cast<std::uintptr_t>(line * lines.memory_pitch);
  unsigned char* shared = lines.shared + line * lines.shared_pitch + offset;
  for (; line < lines.count; line += side) {
    const int skip = static_cast<int>(begin & kMask);
    if (offset - skip < lines.bytes) {
      f(begin + static_cast<std::uintptr_t>(static_cast<std::int64_t>(offset - skip)), shared - skip, begin,
        begin + static_cast<unsigned>(lines.bytes));
    }
    begin += static_cast<std::uintptr_t>(side * lines.memory_pitch);
    shared += side * lines.shared_pitch;
  }
}

// Reads lines of whole aligned vectors.
__device__ __forceinline__ void ReadVectors(const Lines& lines) {
  const int thread = static_cast<int>(threadIdx.x);
  if (lines.count == 1) {
    std::uintptr_t memory = lines.memory + static_cast<unsigned>(thread * kVectorBytes);
#pragma unroll 4
    for (int k = thread * kVectorBytes; k < lines.bytes; k += kBlockThreads * kVectorBytes) {
      CopyAsync(lines.shared + k, memory);
      memory += kBlockThreads * kVectorBytes;
    }
    return;
  }
  const int side = Quotient(kBlockThreads, lines.side);
  const int line = Quotient(thread, lines.side);
  const int offset = (thread - line * static_cast<int>(lines.side.value)) * kVectorBytes;
  if (line >= side || offset >= lines.bytes) return;
  std::uintptr_t memory = lines.memory + static_cast<std::uintptr_t>(line * lines.memory_pitch + offset);
  unsigned char* shared = lines.shared + line * lines.shared_pitch + offset;
#pragma unroll 4
  for (int k = line; k < lines.count; k += side) {
    CopyAsync(shared, memory);
    memory += static_cast<std::uintptr_t>(side * lines.memory_pitch);
    shared += side * lines.shared_pitch;
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
#pragma unroll 1
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
#pragma unroll
    for (int i = 0; i < kVectorBytes; i += static_cast<int>(sizeof(T))) {
      const std::uintptr_t element = vector + static_cast<unsigned>(i);
      if (element >= begin && element < end) {
        *reinterpret_cast<T*>(element) = *reinterpret_cast<const T*>(shared + i);
      }
    }
  });
}

}  // namespace softmax::kernels::cuda
