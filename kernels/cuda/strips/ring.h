#pragma once

#include "kernels/cuda/columns/plan.h"

// The kernels of strips/ring.cuh.
namespace softmax::kernels::cuda {

// Shared memory that a block's places for columns of a strip take.
constexpr int kColumnRingBytes = 224 * 1024;
constexpr int kColumnRingPlaceColumns = 256;

// Warps of a block that compute, and that fetch; one more folds. As measured on an H200.
constexpr int kColumnRingWorkers = 16;
constexpr int ColumnRingFetchers(int element_bytes) { return element_bytes == 2 ? 1 : 2; }

// What kernels there are for: narrow strips or wide ones; columns that are whole vectors, or words of 4 bytes.
constexpr int kRingStripBytes = 64;
constexpr int kWideStripBytes = 128;
struct ColumnRingForm {
  bool wide;
  bool words;

  constexpr int StripBytes() const { return wide ? kWideStripBytes : kRingStripBytes; }
  constexpr int PlaceBytes() const { return kColumnRingPlaceColumns * StripBytes(); }
  constexpr int Places() const { return kColumnRingBytes / PlaceBytes(); }
  // The rows of a strip.
  constexpr int Width(int element_bytes) const { return StripBytes() / element_bytes; }
  // Warps of a block that read: as measured of narrow strips, and of words in wide ones as many as have places.
  constexpr int Readers(int element_bytes) const {
    if (wide && words) return element_bytes == 2 ? 1 : 3;
    return (element_bytes == 2 ? 1 : 2) * (words ? 2 : 1);
  }
  constexpr int Threads(int element_bytes) const {
    return (kColumnRingWorkers + 1 + ColumnRingFetchers(element_bytes) + Readers(element_bytes)) * 32;
  }
};
// The entries of a strip of `width` rows in the table: a row's chunks side by side, and after them those of whole rows.
constexpr int ColumnRingEntries(int width, int chunks) { return width * (chunks + 1); }

// Places that a chunk takes.
constexpr int ColumnRingUnitPlaces(int element_bytes) { return ChunkColumns(element_bytes) / kColumnRingPlaceColumns; }

// nullptr for fp64.
const void* ColumnRingKernelOf(DataType type, ColumnRingForm form, bool log);
// All that there are.
constexpr ColumnRingForm kColumnRingForms[] = {{false, false}, {false, true}, {true, false}, {true, true}};

}  // namespace softmax::kernels::cuda
