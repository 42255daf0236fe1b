#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace softmax::kernels::cpu {

// Of segments with inner == 1 and ordinary scales (factor.h): the rows from `begin` to `end`.
void RunRows(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end);

}  // namespace softmax::kernels::cpu
