#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/wire/tensor_spec.h"

namespace softmax::server {

// How many classes an answer has: top_k of each row.
std::int64_t ClassCount(const TensorSpec& spec);

// Appends classes begin to end - 1 (row by row; at most ClassCount) as Triton writes them: "value:index" with six
// decimals, and its length as a little-endian uint32 in front; at most MostClassBytes each. A magnitude of
// kFirstShortClass and above has the shortest digits that name it, with an exponent. A row of NaN has no best element:
// its classes tie, in the order of their indices. `summary`: as spec.summary_layout() has it. Any part of the classes
// may be appended alone, so that a thread can do other work in between: 2^14 of them take about a millisecond or two.
void AppendClassTexts(const TensorSpec& spec, const std::byte* summary, std::int64_t begin, std::int64_t end,
                      std::string* out);

}  // namespace softmax::server
