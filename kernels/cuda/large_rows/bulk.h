#pragma once

#include "kernels/cuda/rows/matrix.h"

// Many rows of several chunks that
// - are aligned and of more chunks than a block takes: a warp for each chunk, in clusters (large_rows/chunk.cuh),
// - miss the boundaries: a block for each, through shared memory by bulk copies (large_rows/bulk.cuh),
// - are wider, or aligned ones of some widths: likewise a part for each block of a cluster (there too).
namespace softmax::kernels::cuda {

// Chunks of rows that a block takes by bulk copies, at most.
constexpr int BulkChunks(int element_bytes) { return element_bytes == 8 ? 48 : 32; }
constexpr int kBulkThreads = 384;
constexpr int kBulkWarps = 24;  // that a multiprocessor holds
constexpr int BulkTableBytes(int element_bytes) { return element_bytes == 8 ? 1024 : 512; }  // of static shared memory
// Slots of a row with empty ones at its end where they cost less than a chunk that is not whole: chunks are taken in
// pairs, a whole one alone, or slot by slot.
constexpr int PaddedSlots(int slots) {
  const int rest = slots % (2 * kChunkSlots);
  return rest > kChunkSlots ? slots - rest + 2 * kChunkSlots : rest == kChunkSlots - 1 ? slots + 1 : slots;
}

// Warps of a block that takes a chunk with each of them, at most. Log-softmax of 16 bits needs more registers.
constexpr int ClusterWarps(int element_bytes, bool log) { return element_bytes == 2 && log ? 8 : 16; }
// Chunks of a part, and warps that take them, at most. Rows of fp32 whose results are of another type have parts alone.
constexpr int PartChunks(int element_bytes, bool mixed) { return element_bytes == 2 ? 17 : mixed ? 32 : 20; }
constexpr int PartWarps(int element_bytes) { return element_bytes == 2 ? 6 : 5; }
// Whether the first lane's vectors lie apart (large_rows/bulk.cuh): it saves instructions, which bound 16-bit rows.
constexpr bool HasApart(int element_bytes, bool skew) { return element_bytes == 2 && skew; }
// Static shared memory of such a block, at most.
constexpr int PartTableBytes(int element_bytes, bool skew) {
  return BulkTableBytes(element_bytes) +
         (HasApart(element_bytes, skew) ? PartChunks(element_bytes, false) * kChunkSlots * kVectorBytes : 0);
}

}  // namespace softmax::kernels::cuda
