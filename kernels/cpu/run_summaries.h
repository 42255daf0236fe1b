#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace softmax::kernels::cpu {

// Of ordinary scales (factor.h): the summaries of the rows from `begin` to `end`.
void RunSummaries(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                  std::int64_t end);

}  // namespace softmax::kernels::cpu
