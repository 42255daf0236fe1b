#include "tests/kernels/cuda/row_count.h"

#include <algorithm>
#include <cstring>

namespace softmax::kernels::testing {
namespace {

// The rows again and again.
std::vector<std::byte> Repeat(const std::vector<std::byte>& rows, std::int64_t count) {
  const std::size_t row = rows.size() / kDistinctRows;
  std::vector<std::byte> all(row * static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < all.size(); at += rows.size()) {
    std::memcpy(all.data() + at, rows.data(), std::min(rows.size(), all.size() - at));
  }
  return all;
}

// What each row gives alone.
std::vector<std::byte> AloneResults(const RowCase& c, const std::vector<std::byte>& rows) {
  const auto size = static_cast<std::ptrdiff_t>(rows.size() / kDistinctRows);
  std::vector<std::byte> results;
  for (std::ptrdiff_t i = 0; i < kDistinctRows; ++i) {
    RowCase one = c;
    one.outer = 1;
    if (!c.lengths.empty()) one.lengths = {c.lengths[static_cast<std::size_t>(i)]};
    const auto result = RunCase(one, {rows.begin() + i * size, rows.begin() + (i + 1) * size});
    results.insert(results.end(), result.begin(), result.end());
  }
  return results;
}

}  // namespace

std::vector<std::uint32_t> LengthsOf(std::int64_t rows, std::int64_t cols) {
  const std::int64_t some[kDistinctRows] = {cols, cols - 1, cols / 2, 7, 1, 0, cols + 5, 515};
  std::vector<std::uint32_t> lengths(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::uint32_t>(some[i % kDistinctRows]);
  return lengths;
}

void ExpectSameBits(RowCase c, Values values, const std::vector<std::int64_t>& counts) {
  const std::int64_t stride = c.cols + c.padding;
  const std::vector<std::byte> rows = MakeValues(values, c.input_type, kDistinctRows * stride, 19, stride);
  const std::vector<std::uint32_t> lengths = c.lengths;  // of the distinct rows
  const std::vector<std::byte> expected = AloneResults(c, rows);
  for (const std::int64_t count : counts) {
    c.outer = count;
    if (!lengths.empty()) c.lengths.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < c.lengths.size(); ++i) c.lengths[i] = lengths[i % kDistinctRows];
    EXPECT_TRUE(RunCase(c, Repeat(rows, count)) == Repeat(expected, count)) << c.Name();
  }
}

}  // namespace softmax::kernels::testing
