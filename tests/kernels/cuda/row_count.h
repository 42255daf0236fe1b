#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/cuda/row_case.h"

// The same few rows again and again, in matrices of many, beside each of them alone.
namespace softmax::kernels::testing {

constexpr std::int64_t kDistinctRows = 8;

// Lengths for `rows` rows: some in full, some cut: to nothing, to few columns, within a chunk.
std::vector<std::uint32_t> LengthsOf(std::int64_t rows, std::int64_t cols);

// Runs the case with each of `counts` rows, of which kDistinctRows differ, and expects of each the bits that it gives
// alone. Lengths, if any, are those of the distinct rows.
void ExpectSameBits(RowCase c, Values values, const std::vector<std::int64_t>& counts);

}  // namespace softmax::kernels::testing
