#include "kernels/bench/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <future>
#include <set>
#include <vector>

#include "kernels/operations.h"
#include "kernels/reference.h"

namespace softmax::kernels::bench {
namespace {

constexpr std::int64_t kElementsPerCheck = 1024;

// Neighbouring rows: outer blocks, or for an inner axis, rows of one block.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

std::vector<RowRange> RowsToCheck(const Segment& segment) {
  const std::int64_t rows = segment.inner > 1 ? segment.inner : segment.outer;
  const std::int64_t count = std::min(rows, std::max<std::int64_t>(1, kElementsPerCheck / segment.cols));
  std::vector<RowRange> ranges = {{0, count}};
  if (rows > 2 * count) ranges.push_back({rows / 2, count});
  if (rows > count) ranges.push_back({rows - count, count});
  return ranges;
}

// Dense copies of some rows, with the shape they have there.
class RowCopy {
 public:
  RowCopy(DataType dtype, DataType output_dtype, const Segment& from, const RowRange& rows, std::int64_t block,
          const Fetch& fetch) {
    segment_ = from;
    const bool last_axis = from.inner == 1;
    segment_.outer = last_axis ? rows.count : 1;
    segment_.inner = last_axis ? 1 : rows.count;
    segment_.input_stride = segment_.output_stride = from.cols * segment_.inner;
    const auto copy = [&](DataType type, const void* source, std::int64_t stride, std::vector<char>* target) {
      const auto size = static_cast<std::int64_t>(SizeOf(type));
      target->resize(static_cast<std::size_t>(rows.count * from.cols * size));
      const std::int64_t start = last_axis ? rows.first * stride : block * stride + rows.first;
      const std::int64_t pitch = last_axis ? stride : from.inner;
      fetch(target->data(), static_cast<const char*>(source) + start * size, static_cast<std::size_t>(pitch * size),
            static_cast<std::size_t>((last_axis ? from.cols : rows.count) * size),
            static_cast<std::size_t>(last_axis ? rows.count : from.cols));
    };
    copy(dtype, from.input, from.input_stride, &input_);
    copy(output_dtype, from.output, from.output_stride, &output_);
    segment_.input = input_.data();
    segment_.output = output_.data();
    if (from.lengths == nullptr) return;
    lengths_.resize(static_cast<std::size_t>(rows.count));
    const std::size_t bytes = lengths_.size() * sizeof(std::uint32_t);
    fetch(lengths_.data(), from.lengths + block * (last_axis ? 0 : from.inner) + rows.first, bytes, bytes, 1);
    segment_.lengths = lengths_.data();
  }

  RowCopy(const RowCopy&) = delete;
  RowCopy& operator=(const RowCopy&) = delete;

  const Segment& segment() const { return segment_; }

 private:
  std::vector<char> input_;
  std::vector<char> output_;
  std::vector<std::uint32_t> lengths_;
  Segment segment_;
};

// Relative to the value; for log-softmax to the larger of it and one.
double RoughTolerance(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return 0x1p-6;
    case DataType::kBFloat16:
      return 0x1p-3;
    case DataType::kFloat32:
      return 1e-4;
    case DataType::kFloat64:
      return 1e-10;
  }
  return 0;
}

std::string RoughRow(DataType dtype, const Segment& segment, std::int64_t row) {
  const std::int64_t start = row / segment.inner * segment.input_stride + row % segment.inner;
  const auto index = [&](std::int64_t c) { return start + c * segment.inner; };
  const auto input = [&](std::int64_t c) { return LoadElement(dtype, segment.input, index(c)); };
  double max = -INFINITY;
  for (std::int64_t c = 0; c < segment.cols; ++c) max = std::max(max, input(c));
  double sum = 0;
  for (std::int64_t c = 0; c < segment.cols; ++c) sum += std::exp(input(c) - max);
  const bool log = TraitsOf(segment.operation).is_log;
  // Numbers far below the row's largest may have been rounded off between the steps; 16 bits lose the smallest ones.
  const double floor = log ? 1.0 : 0.01 / sum;
  const double smallest = dtype == DataType::kFloat16 ? 0x1p-23 : 0;
  for (std::int64_t c = 0; c < segment.cols; ++c) {
    const double expected = log ? input(c) - max - std::log(sum) : std::exp(input(c) - max) / sum;
    const double got = LoadElement(dtype, segment.output, index(c));
    const double bound = RoughTolerance(dtype) * std::max(std::fabs(expected), floor) + smallest;
    if (!(std::fabs(got - expected) <= bound)) {
      return "row " + std::to_string(row) + ", column " + std::to_string(c) + ": got " + std::to_string(got) +
             ", expected about " + std::to_string(expected);
    }
  }
  return "";
}

// One row of a summary, with copies of what it was made of and of its answers.
std::string CheckSummaryRow(DataType dtype, DataType output_dtype, const SummarySegment& all, std::int64_t row,
                            const Fetch& fetch) {
  SummarySegment one = all;
  std::deque<std::vector<char>> copies;
  const auto copy = [&](const void* source, std::size_t bytes) {
    std::vector<char>& target = copies.emplace_back(bytes);
    fetch(target.data(), static_cast<const char*>(source) + static_cast<std::size_t>(row) * bytes, bytes, bytes, 1);
    return target.data();
  };
  const auto top_k = static_cast<std::size_t>(all.top_k);
  const std::size_t number = dtype == DataType::kFloat64 ? 8 : 4;
  one.rows.outer = 1;
  one.rows.input = copy(all.rows.input, static_cast<std::size_t>(all.rows.cols) * SizeOf(dtype));
  one.top_values = copy(all.top_values, top_k * SizeOf(output_dtype));
  one.top_indices = reinterpret_cast<std::int32_t*>(copy(all.top_indices, top_k * sizeof(std::int32_t)));
  one.log_sum_exp = copy(all.log_sum_exp, number);
  one.maximum = copy(all.maximum, number);
  const std::string problem = JudgeSummary(dtype, output_dtype, one, Bounds::kUsual).message;
  return problem.empty() ? "" : "row " + std::to_string(row) + ": " + problem;
}

std::string CheckCopy(DataType dtype, DataType output_dtype, const Segment& segment, Strictness strictness) {
  if (strictness == Strictness::kBounds) return Judge(dtype, output_dtype, segment, Bounds::kUsual).message;
  for (std::int64_t row = 0; row < segment.outer * segment.inner; ++row) {
    if (std::string problem = RoughRow(dtype, segment, row); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace

void FetchFromHost(void* target, const void* source, std::size_t pitch, std::size_t width, std::size_t height) {
  for (std::size_t i = 0; i < height; ++i) {
    std::memcpy(static_cast<char*>(target) + i * width, static_cast<const char*>(source) + i * pitch, width);
  }
}

std::string Check(DataType dtype, DataType output_dtype, const Segment& segment, Strictness strictness,
                  const Fetch& fetch) {
  const std::vector<RowRange> ranges = RowsToCheck(segment);
  std::deque<RowCopy> copies;
  std::vector<std::future<std::string>> problems;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    // Of an inner axis the first range is taken from the first block and the others from the last.
    const std::int64_t block = i == 0 ? 0 : segment.outer - 1;
    const RowCopy& rows = copies.emplace_back(dtype, output_dtype, segment, ranges[i], block, fetch);
    // A row of millions of columns takes seconds.
    problems.push_back(std::async(std::launch::async, [&rows, dtype, output_dtype, strictness] {
      return CheckCopy(dtype, output_dtype, rows.segment(), strictness);
    }));
  }
  std::string first;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string problem = problems[i].get();
    if (first.empty() && !problem.empty()) {
      first = "rows from " + std::to_string(ranges[i].first) + " on: " + problem;
    }
  }
  return first;
}

std::string CheckSummary(DataType dtype, DataType output_dtype, const SummarySegment& summary, const Fetch& fetch) {
  for (const std::int64_t row : std::set<std::int64_t>{0, summary.rows.outer / 2, summary.rows.outer - 1}) {
    std::string problem = CheckSummaryRow(dtype, output_dtype, summary, row, fetch);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace softmax::kernels::bench
