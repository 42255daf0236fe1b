#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/core/work.h"

// What the host hands to the launches of summaries (kernels/types.h).
//
// Small rows, of which each is held by the lanes of a warp, have a kernel of their own. All others take two: in the
// first each warp reads a chunk and leaves its statistics in device memory; in the second a block folds those of a row
// in the tree of all kernels, so that the values have the bits of whole answers, and looks for the largest elements,
// but only in chunks whose maxima say that they may hold some. So the input is read once, but for these.
namespace softmax::kernels::cuda {

// Largest top_k of small rows that their lanes find among themselves; with more a block takes each row.
constexpr std::int32_t kSmallTopK = 32;
// Vectors a lane of rows that take less than a warp (RowLanes); no other rows have as many.
constexpr int kNarrowSlots = 3;
// Rows of a warp each that wait to be finished together.
constexpr int kWaitingRows = 8;
constexpr int kInlineSummaries = 14;
// Blocks that a multiprocessor has to hold, of the kernels of small rows and of chunks.
constexpr int kSmallSummaryBlocks = 3;
constexpr int kSummaryReadBlocks = 4;
// A row whose chunks are read has a block of kBlockThreads threads; of more where rows are few or much is asked.
constexpr int kFewRowThreads = 512;
constexpr std::int32_t kLargeTopK = 128;  // from which on
constexpr int LargeRowThreads(int element_bytes) { return element_bytes == 8 ? 512 : 1024; }

struct alignas(16) DeviceSummary : SummarySegment {
  std::int64_t row_count;
  unsigned char scale_parts[40];  // ScaleParts of the type computed in
  std::int64_t first_item;        // small rows: of its items; others: its first row
  std::int64_t first_read;        // its first item of the kernel that reads
  std::int64_t tables;            // bytes from the launch's first table to those of its rows
  ExactDivisor chunks;            // of a row, where they are read first
  std::uint8_t lanes;             // per row, of small rows
  bool has_lanes;                 // the maxima of all lanes are kept: many chunks hold some of the largest

  SOFTMAX_HOST_DEVICE bool IsLog() const { return rows.operation == Operation::kLogSoftmax; }
};
static_assert(sizeof(DeviceSummary) == 240, "parameters are copied at each launch");

struct SummaryParams {
  const DeviceSummary* table;  // mapped host memory; nullptr: `segments` below
  std::int64_t items;
  std::int64_t items_per_block;  // with `table`
  std::uint32_t segment_count;
  DataType output_type;
  unsigned char* tables;  // device memory
  Completion completion;
  DeviceSummary segments[kInlineSummaries];
};
static_assert(sizeof(SummaryParams) <= 4096, "the classic limit of kernel parameters");

// Bytes of a table: for each chunk its statistics, its part of the entropy, and its lanes' maxima where they are kept.
constexpr std::int64_t SummaryTableBytes(std::int64_t chunks, int compute_bytes, bool has_lanes) {
  return (chunks * (2 * compute_bytes + 8 + (has_lanes ? 32 * compute_bytes : 0)) + 15) / 16 * 16;
}

// The kernels of an input type, as sizes of Room::kSummary; the output's type is a switch at run time.
enum SummaryStep { kSummarySmall, kSummaryRead, kSummaryRows };

}  // namespace softmax::kernels::cuda
