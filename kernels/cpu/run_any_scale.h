#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace softmax::kernels::cpu {

// Element by element in long double: slow, for what the others do not take, which is scales that no model uses.
bool NeedsAnyScale(DataType input_type, const Segment& segment);
void RunAnyScale(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                 std::int64_t end);
void SummarizeAnyScale(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                       std::int64_t end);

}  // namespace softmax::kernels::cpu
