#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/columns/columns.h"
#include "kernels/cuda/core/work.h"

// Copies lines (equally long stretches of bytes) from memory to shared memory in aligned 16-byte accesses. A line
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

// Calls copy(k) for k = begin, begin + step, ... below end, four at a time: copies that follow each other without a
// branch take fewer instructions.
template <typename F>
__device__ __forceinline__ void ForCopies(int begin, int end, int step, F copy) {
  int k = begin;
#pragma unroll 1
  for (; k + 3 * step < end; k += 4 * step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) copy();
  }
#pragma unroll 1
  for (; k < end; k += step) copy();
}

// Reads lines of whole aligned vectors.
__device__ __forceinline__ void ReadVectors(const Lines& lines) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const bool flat = lines.count == 1;
  const int vectors = lines.bytes / kVectorBytes;
  const int line = flat ? 0 : Quotient(thread, lines.side);
  const int vector = flat ? thread : thread - line * static_cast<int>(lines.side.value);
  const int side = flat ? threads : Quotient(threads, lines.side);
  if (vector >= vectors || line >= side) return;
  std::uintptr_t memory = lines.memory + static_cast<std::uintptr_t>(line * lines.memory_pitch + vector * kVectorBytes);
  unsigned char* shared = lines.shared + line * lines.shared_pitch + vector * kVectorBytes;
  const auto memory_step = static_cast<std::uintptr_t>(flat ? threads * kVectorBytes : side * lines.memory_pitch);
  const int shared_step = flat ? threads * kVectorBytes : side * lines.shared_pitch;
  ForCopies(flat ? thread : line, flat ? vectors : lines.count, side, [&] {
    CopyAsync(shared, memory);
    memory += memory_step;
    shared += shared_step;
  });
}

// Elements of the aligned 16 bytes at `vector` that lie in [begin, end), one by one.
template <typename T>
__device__ void ReadElements(std::uintptr_t vector, unsigned char* shared, std::uintptr_t begin, std::uintptr_t end) {
#pragma unroll 1
  for (int i = 0; i < kVectorBytes; i += static_cast<int>(sizeof(T))) {
    const std::uintptr_t element = vector + static_cast<unsigned>(i);
    if (element < begin || element >= end) continue;
    *reinterpret_cast<T*>(shared + i) = *reinterpret_cast<const T*>(element);
  }
}

// Reads the lines as the aligned vectors that hold some of them. Bytes beside a line come along where they lie within
// [begin, end), which must hold the lines; no others are read.
template <typename T>
__device__ __forceinline__ void ReadLines(const Lines& lines, std::uintptr_t begin, std::uintptr_t end) {
  constexpr std::uintptr_t kMask = kVectorBytes - 1;
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const bool flat = lines.count == 1;
  const int line = flat ? 0 : Quotient(thread, lines.side);
  const int offset = (flat ? thread : thread - line * static_cast<int>(lines.side.value)) * kVectorBytes;
  const int side = flat ? threads : Quotient(threads, lines.side);
  if (line >= side) return;
  if (flat) {
    const int skip = static_cast<int>(lines.memory & kMask);
    for (int k = offset - skip; k < lines.bytes; k += threads * kVectorBytes) {
      const std::uintptr_t vector = lines.memory + static_cast<std::uintptr_t>(static_cast<std::int64_t>(k));
      if (vector >= begin && vector + kVectorBytes <= end) {
        CopyAsync(lines.shared + k, vector);
      } else {
        ReadElements<T>(vector, lines.shared + k, begin, end);
      }
    }
    return;
  }
  std::uintptr_t memory = lines.memory + static_cast<std::uintptr_t>(line * lines.memory_pitch);
  unsigned char* shared = lines.shared + line * lines.shared_pitch + offset;
  const auto memory_step = static_cast<std::uintptr_t>(side * lines.memory_pitch);
  const int shared_step = side * lines.shared_pitch;
  const std::uintptr_t last = lines.memory + static_cast<std::uintptr_t>((lines.count - 1) * lines.memory_pitch);
  // Whether no vector of a line leaves [begin, end).
  if ((lines.memory & ~kMask) >= begin && ((last + static_cast<unsigned>(lines.bytes) + kMask) & ~kMask) <= end) {
    ForCopies(line, lines.count, side, [&] {
      const int skip = static_cast<int>(memory & kMask);
      if (offset < lines.bytes + skip) CopyAsync(shared - skip, (memory & ~kMask) + static_cast<unsigned>(offset));
      memory += memory_step;
      shared += shared_step;
    });
    return;
  }
#pragma unroll 1
  for (int k = line; k < lines.count; k += side) {
    const int skip = static_cast<int>(memory & kMask);
    const std::uintptr_t vector = (memory & ~kMask) + static_cast<unsigned>(offset);
    if (offset >= lines.bytes + skip) {
    } else if (vector >= begin && vector + kVectorBytes <= end) {
      CopyAsync(shared - skip, vector);
    } else {
      ReadElements<T>(vector, shared - skip, begin, end);
    }
    memory += memory_step;
    shared += shared_step;
  }
}

}  // namespace softmax::kernels::cuda
