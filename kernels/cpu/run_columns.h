#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace softmax::kernels::cpu {

// Of segments with any `inner` and ordinary scales (factor.h); slower than RunRows where `inner` is 1.
void RunColumns(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                std::int64_t end);

}  // namespace softmax::kernels::cpu
