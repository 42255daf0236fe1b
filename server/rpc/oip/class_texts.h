#pragma once

#include <cstddef>
#include <string>

#include "server/base/tensor_spec.h"

namespace softmax::server {

// The classes of all rows as Triton writes them: for each of the top_k elements "value:index" with six decimals, and
// its length as a little-endian uint32 in front. `summary`: as spec.summary_layout() has it.
std::string ClassTexts(const TensorSpec& spec, const std::byte* summary);

}  // namespace softmax::server
