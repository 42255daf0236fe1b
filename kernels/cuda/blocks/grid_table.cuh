#pragma once

#include <cstdint>

#include "kernels/cuda/core/math.cuh"
#include "kernels/cuda/rows/matrix.h"

// How the blocks that share a row exchange statistics through device memory. Every word of an entry lies beside a tag
// that says which row it belongs to, in one 64-bit access: a reader looks at the entry itself until it is there, with
// no flag, fence or counter between. Tags go on counting from launch to launch, so that nothing has to be cleared.
//
// A place is used again after `table_rows` rows: its readers are counted, and it is not written before all of the row
// that had it have read what they need.
//
// What one lane does here is followed by __syncwarp(): a warp of which one lane alone had waited for memory stayed
// divided, and took three times as long for the statistics after that.
namespace softmax::kernels::cuda {

// Of the parameters' `rows` the table holds `table_rows`; each is left `row_blocks` times.
template <typename C>
class GridTable {
 public:
  __device__ __forceinline__ explicit GridTable(const MatrixParams& params) : GridTable(params, NextTag(params)) {}
  // `tag`: what NextTag() gave.
  __device__ __forceinline__ GridTable(const MatrixParams& params, std::uint32_t tag) : params_(params), tag_(tag) {}
  __device__ __forceinline__ static std::uint32_t NextTag(const MatrixParams& params) {
    return __ldcg(TagWord(params)) + 1;
  }

  // By one thread. A row has `entries`.
  __device__ __forceinline__ void Publish(int row, int entries, int index, const Stats<C>& stats) const {
    std::uint32_t words[kWords];
    memcpy(words, &stats, sizeof(stats));
    std::uint64_t* const to = EntryOf(row, entries, index);
    const std::uint64_t tag = static_cast<std::uint64_t>(TagOf(row)) << 32;
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to + i), "l"(tag | words[i]),
                   "l"(tag | words[i + 1])
                   : "memory");
    }
  }
  // Waits for a row's entries from `first` on, of which a thread takes every `threads`-th of `count`, two at a time.
  __device__ __forceinline__ void Await(int row, int entries, int first, int count, Stats<C>* to,
                                        int threads = kMatrixThreads) const {
    constexpr int kAtOnce = sizeof(C) == 8 ? 1 : 2;  // doubles take twice the registers
#pragma unroll 1
    for (int i = 0; i < count; i += kAtOnce * threads) {
      const bool has_second = kAtOnce > 1 && i + threads < count;
      const std::uint64_t* const from = EntryOf(row, entries, first + i);
      const std::uint64_t* const second = from + threads * kWords;
      std::uint64_t got[2][kWords] = {};
      do {
        Load(from, got[0]);
        if (has_second) Load(second, got[1]);
      } while (!IsThere(got[0], TagOf(row)) || (has_second && !IsThere(got[1], TagOf(row))));
      Take(got[0], to + i);
      if (has_second) Take(got[1], to + i + threads);
    }
  }
  // By a whole warp, before the block publishes anything of the row.
  __device__ __forceinline__ void AwaitPlace(int row) const {
    if (row < params_.table_rows) return;
    const auto all = static_cast<std::uint32_t>(row / params_.table_rows * params_.row_blocks);
    std::uint32_t readers = 0;
    do {
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(readers) : "l"(ReadersOf(row)) : "memory");
    } while (readers < all);
  }
  // By one thread, after all of the block have read what they need of the row.
  __device__ __forceinline__ void LeavePlace(int row) const {
    if (params_.rows <= params_.table_rows) return;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(ReadersOf(row)) : "memory");
  }

  // Instead of End() where a launch has one row in `table_rows` copies: by every block after it has seen all entries.
  __device__ __forceinline__ static void EndCopies(const MatrixParams& params, std::uint32_t tag) {
    if (tag >= kLastTag) {
      End(params);
    } else if (blockIdx.x == 0 && threadIdx.x == 0) {
      *TagWord(params) = tag + static_cast<std::uint32_t>(params.table_rows) - 1;
    }
  }
  // By every block as the last thing it does with the table. The last one clears the counters and moves the tags on.
  __device__ __forceinline__ static void End(const MatrixParams& params) {
    __shared__ bool clear;
    __syncthreads();
    if (threadIdx.x == 0) {
      clear = false;
      std::uint32_t* const workspace = params.completion.workspace;
      __threadfence();
      if (atomicAdd(workspace + kWorkspaceEnded, 1u) + 1 == gridDim.x) {
        workspace[kWorkspaceEnded] = 0;
        const int places = params.rows > params.table_rows ? params.table_rows : 0;
        for (int i = 0; i < places; ++i) workspace[kWorkspaceReaders + i] = 0;
        const std::uint32_t tag = *TagWord(params) + static_cast<std::uint32_t>(params.rows);
        clear = tag >= kLastTag;
        *TagWord(params) = clear ? 0 : tag;
      }
    }
    __syncthreads();
    if (!clear) return;
    // Long before a tag comes again, no entry may have it.
    for (std::size_t i = kWorkspaceTable + threadIdx.x; i < kSoftmaxWorkspaceBytes / 4; i += blockDim.x) {
      params.completion.workspace[i] = 0;
    }
  }

 private:
  static constexpr int kWords = sizeof(Stats<C>) / sizeof(std::uint32_t);
  static constexpr std::uint32_t kLastTag = 1u << 31;

  __device__ __forceinline__ static std::uint32_t* TagWord(const MatrixParams& params) {
    return params.completion.workspace + kWorkspaceTag;
  }
  __device__ __forceinline__ int PlaceOf(int row) const { return row % params_.table_rows; }
  __device__ __forceinline__ std::uint32_t* ReadersOf(int row) const {
    return params_.completion.workspace + kWorkspaceReaders + PlaceOf(row);
  }
  __device__ __forceinline__ std::uint32_t TagOf(int row) const { return tag_ + static_cast<std::uint32_t>(row); }
  __device__ __forceinline__ std::uint64_t* EntryOf(int row, int entries, int index) const {
    return reinterpret_cast<std::uint64_t*>(params_.completion.workspace + kWorkspaceTable) +
           (PlaceOf(row) * entries + index) * kWords;
  }
  __device__ __forceinline__ static void Load(const std::uint64_t* from, std::uint64_t (&got)[kWords]) {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                   : "=l"(got[i]), "=l"(got[i + 1])
                   : "l"(from + i)
                   : "memory");
    }
  }
  __device__ __forceinline__ static void Take(const std::uint64_t (&got)[kWords], Stats<C>* to) {
    std::uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = static_cast<std::uint32_t>(got[i]);
    memcpy(to, words, sizeof(*to));
  }
  __device__ __forceinline__ static bool IsThere(const std::uint64_t (&got)[kWords], std::uint32_t tag) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < kWords; ++i) all = all && static_cast<std::uint32_t>(got[i] >> 32) == tag;
    return all;
  }

  const MatrixParams& params_;
  const std::uint32_t tag_;  // of row 0
};

}  // namespace softmax::kernels::cuda
