#pragma once

#include "kernels/cuda/column_plan.h"

// The kernels of column_ring.cuh.
namespace softmax::kernels::cuda {

constexpr int kColumnRingPlaces = 14;         // in shared memory
constexpr int kColumnRingPlaceColumns = 256;  // of a strip, kPassStripBytes wide
constexpr int kColumnRingPlaceBytes = kColumnRingPlaceColumns * kPassStripBytes;
// Warps of a block: those that compute, that read and that fetch, and one that folds. As measured on an H200.
constexpr int kColumnRingWorkers = 16;
constexpr int ColumnRingReaders(int element_bytes) { return element_bytes == 2 ? 1 : 2; }
constexpr int ColumnRingFetchers(int element_bytes) { return element_bytes == 2 ? 1 : 2; }
constexpr int ColumnRingThreads(int element_bytes) {
  return (kColumnRingWorkers + 1 + ColumnRingFetchers(element_bytes) + ColumnRingReaders(element_bytes)) * 32;
}
constexpr int kColumnRingBytes = kColumnRingPlaces * kColumnRingPlaceBytes;

// Places that a chunk takes.
constexpr int ColumnRingUnitPlaces(int element_bytes) { return ChunkColumns(element_bytes) / kColumnRingPlaceColumns; }
// The rows of a strip.
constexpr int ColumnRingWidth(int element_bytes) { return kPassStripBytes / element_bytes; }
// The entries of a strip in the table: a row's chunks side by side, and after them those of whole rows.
constexpr int ColumnRingEntries(int chunks, int element_bytes) { return ColumnRingWidth(element_bytes) * (chunks + 1); }

// nullptr for fp64.
const void* ColumnRingKernelOf(DataType type, bool log);

}  // namespace softmax::kernels::cuda
