#pragma once

#include <cstdint>

#include "kernels/types.h"

// The parts that Softmax() and Summarize() choose from, a source file each so that they build side by side. All but
// those for any scale take ordinary scales only (factor.h).
namespace softmax::kernels::cpu {

// Of segments with inner == 1.
void RunRows(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end);
// Of segments with any `inner`; slower than RunRows where that is 1.
void RunColumns(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                std::int64_t end);
void RunSummaries(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                  std::int64_t end);

// Element by element in long double: slow, for what the others do not take, which is scales that no model uses.
bool NeedsAnyScale(DataType input_type, const Segment& segment);
void RunAnyScale(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                 std::int64_t end);
void SummarizeAnyScale(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                       std::int64_t end);

}  // namespace softmax::kernels::cpu
