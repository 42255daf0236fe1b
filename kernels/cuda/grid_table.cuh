#pragma once

#include <cstdint>

#include "kernels/cuda/math.cuh"
#include "kernels/cuda/matrix.h"

// How the blocks that share a row exchange statistics through device memory. Every word of an entry lies beside a tag
// that says which row it belongs to, in one 64-bit access: a reader looks at the entry itself until it is there, with
// no flag, fence or counter between. Tags go on counting from launch to launch, so that nothing has to be cleared.
//
// A place is used again after `table_rows` rows. Blocks count the steps they have finished, an epoch of some steps at a
// time, and begin an epoch only when all have finished the one before the last: then nobody still reads what they
// overwrite.
namespace softmax::kernels::cuda {

template <typename C>
class GridTable {
 public:
  __device__ __forceinline__ explicit GridTable(const MatrixParams& params)
      : params_(params), tag_(__ldcg(TagWord(params)) + 1) {}

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
  // Waits for an entry.
  __device__ __forceinline__ Stats<C> Await(int row, int entries, int index) const {
    const std::uint64_t* const from = EntryOf(row, entries, index);
    std::uint64_t got[kWords];
    do {
      Load(from, got);
    } while (!IsThere(got, TagOf(row)));
    std::uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = static_cast<std::uint32_t>(got[i]);
    Stats<C> stats;
    memcpy(&stats, words, sizeof(stats));
    return stats;
  }

  // The tag that an entry has now, of any row, and whether it means that the row's has been there.
  __device__ __forceinline__ std::uint32_t TagAt(int row, int entries, int index) const {
    std::uint32_t tag = 0;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                 : "=r"(tag)
                 : "l"(reinterpret_cast<const std::uint32_t*>(EntryOf(row, entries, index)) + 1)
                 : "memory");
    return tag;
  }
  __device__ __forceinline__ bool IsPast(int row, std::uint32_t tag) const {
    return static_cast<std::int32_t>(tag - TagOf(row)) >= 0;
  }

  // By thread 0, before the block publishes anything of its step.
  __device__ __forceinline__ void BeginStep(int step) const {
    const int epoch = step / EpochSteps();
    if (step % EpochSteps() != 0 || epoch < 2) return;
    const std::uint32_t all = static_cast<std::uint32_t>(epoch / 2) * gridDim.x;
    std::uint32_t ended = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ended) : "l"(Counter(epoch)) : "memory");
    } while (ended < all);
  }
  // By thread 0, after all of the block have read what they need.
  __device__ __forceinline__ void EndStep(int step) const {
    if ((step + 1) % EpochSteps() != 0) return;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(Counter(step / EpochSteps())) : "memory");
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
        workspace[kWorkspaceEpochs] = 0;
        workspace[kWorkspaceEpochs + kEpochWords] = 0;
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
  __device__ __forceinline__ std::uint32_t* Counter(int epoch) const {
    return params_.completion.workspace + kWorkspaceEpochs + (epoch & 1) * kEpochWords;
  }
  __device__ __forceinline__ std::uint32_t TagOf(int row) const { return tag_ + static_cast<std::uint32_t>(row); }
  __device__ __forceinline__ std::uint64_t* EntryOf(int row, int entries, int index) const {
    return reinterpret_cast<std::uint64_t*>(params_.completion.workspace + kWorkspaceTable) +
           (row % params_.table_rows * entries + index) * kWords;
  }
  __device__ __forceinline__ int EpochSteps() const {
    if (params_.rows <= params_.table_rows) return 1 << 30;
    return (params_.table_rows - 1) * params_.row_blocks / (2 * static_cast<int>(gridDim.x));
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
