#pragma once

#include <vector>

#include "tests/kernels/cuda/row_case.h"

namespace softmax::kernels::testing {

struct BatchPart {
  RowCase shape;  // types and place are the batch's
  std::vector<std::byte> input;
};

// `count` parts of all sizes, widths, operations, scales and alignments, repeatable by seed. Rows of up to `widest`
// columns.
std::vector<BatchPart> RandomParts(DataType input_type, DataType output_type, int count, std::int64_t widest,
                                   unsigned seed);

// `count` parts of contiguous rows, as the kernel for batches (kernels/cuda/batch/batch.h) takes them: few scales, all
// widths up to `widest`. `aligned`: with widths that keep every row on a 16-byte boundary.
std::vector<BatchPart> ContiguousParts(DataType type, int count, std::int64_t widest, bool aligned, unsigned seed);

// Runs all parts in one launch, packed without padding (so at any alignment) in memory of that place, and waits for the
// flag. Returns each part's output.
std::vector<std::vector<std::byte>> RunBatch(DataType input_type, DataType output_type,
                                             const std::vector<BatchPart>& parts, Place place);

}  // namespace softmax::kernels::testing
