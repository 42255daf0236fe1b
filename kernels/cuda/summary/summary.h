#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/core/work.h"

// What the host hands to a launch of summaries (kernels/types.h).
//
// An item is what a block takes at a time: small rows of which each is held by the lanes of a warp, or a part of one
// row. A wide row's parts, some chunks each, go to whatever blocks are free. Each leaves the statistics of its chunks
// in device memory, and the block that is last of its row folds these in the tree of all kernels, so that the values
// have the bits of whole answers, and looks for the largest elements: only in chunks whose maxima say that they may
// hold some, which are still in the L2. So the input is read once. Blocks take the items by a counter, as the last of a
// row has more to do than others.
namespace softmax::kernels::cuda {

// Largest top_k of small rows that their lanes find among themselves; with more a block takes each row.
constexpr std::int32_t kSmallTopK = 32;
// Rows in parts that a launch may have; their counters lie first in the workspace and are left zero.
constexpr std::int64_t kSummaryCounters = 65536;
// Behind them: how many items are taken, and how many blocks are done.
constexpr std::int64_t kItemsTaken = kSummaryCounters;
constexpr std::int64_t kBlocksDone = kSummaryCounters + 1;
constexpr std::size_t kSummaryCounterBytes = (kSummaryCounters + 32) * sizeof(std::uint32_t);
constexpr int kInlineSummaries = 14;
constexpr int kSummaryBlocks = 3;  // on a multiprocessor

struct alignas(16) DeviceSummary {
  const void* input;
  const std::uint32_t* lengths;
  const std::int32_t* indices;
  void* top_values;
  std::int32_t* top_indices;
  void* values_at;
  void* log_sum_exp;
  void* maximum;
  void* entropy;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t inner;
  std::int64_t input_stride;
  std::int64_t at;
  double scale;
  unsigned char scale_parts[48];  // ScaleParts of the type computed in
  std::int64_t first_item;
  std::int64_t first_counter;  // of its rows; -1: each row is one part
  std::int64_t tables;         // where its rows' tables begin among those of all rows in parts
  std::int32_t top_k;
  std::uint32_t lanes;        // per row, of small rows
  std::uint32_t part_chunks;  // 0: rows of small items
  std::uint32_t parts;        // of a row
  std::uint8_t log;
  std::uint8_t wide;       // every row starts on a 16-byte boundary
  std::uint8_t has_lanes;  // the maxima of all lanes are kept: there are fewer chunks than top_k
  std::uint8_t reserved[5];
};
static_assert(sizeof(DeviceSummary) % 16 == 0);

struct SummaryParams {
  const DeviceSummary* table;        // mapped host memory; nullptr: `segments` below
  const std::uint32_t* block_first;  // with `table`: the segment each block starts with
  std::int64_t items;
  std::int64_t items_per_block;
  std::uint32_t segment_count;
  std::uint32_t* counters;      // device memory, zero
  unsigned char* block_tables;  // device memory, and so are the rows'
  std::int64_t block_table_bytes;
  unsigned char* row_tables;
  DataType output_type;
  Completion completion;
  DeviceSummary segments[kInlineSummaries];
};
static_assert(sizeof(SummaryParams) <= 4096, "the classic limit of kernel parameters");

// Bytes of a table: for each chunk its statistics, its part of the entropy, and its lanes' maxima where they are kept.
constexpr std::int64_t SummaryTableBytes(std::int64_t chunks, int compute_bytes, bool has_lanes) {
  return (chunks * (2 * compute_bytes + 8 + (has_lanes ? 32 * compute_bytes : 0)) + 15) / 16 * 16;
}

// An input type's kernel; the output's type is a switch at run time.
const void* Float32SummaryKernel();
const void* Float16SummaryKernel();
const void* BFloat16SummaryKernel();
const void* Float64SummaryKernel();

// Loads them on the current device.
cudaError_t LoadSummaryKernels();

}  // namespace softmax::kernels::cuda
