#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/kernel_cases.h"

// Summaries of the kernel cases' tensors: what is asked for, the memory that the answer goes to, and how it is judged:
// by the reference, and by the bits of the whole answer.
namespace softmax::testing {

using kernels::SummarySegment;

struct SummaryAsk {
  std::int32_t top_k = 0;
  std::int64_t at = 0;
  bool log_sum_exp = false;
  bool entropy = false;
};

// What a case asks for: over a few cases every part comes up alone and beside every other.
inline SummaryAsk AskOf(std::uint64_t n) {
  constexpr std::int32_t kTop[] = {1, 20, 5, 0, 64, 1024, 3, 256};
  SummaryAsk ask;
  ask.top_k = kTop[n % 8];
  ask.at = n % 3 == 0 ? 0 : static_cast<std::int64_t>(n % 7) * 3 + 1;
  ask.log_sum_exp = n % 2 == 0 || (ask.top_k == 0 && ask.at == 0);
  ask.entropy = n % 5 < 2;
  return ask;
}

// The arrays of a summary in one block: Bind() says where they are for any copy of the block.
class SummaryMemory {
 public:
  SummaryMemory(const KernelCase& test, const SummaryAsk& ask) : test_(test), ask_(ask) {
    const auto rows = static_cast<std::size_t>(test.rows());
    const std::size_t value = SizeOf(test.output_type);
    const std::size_t number = test.input_type == DataType::kFloat64 ? 8 : 4;
    const auto k = static_cast<std::size_t>(ask.top_k);
    const auto at = static_cast<std::size_t>(ask.at);
    std::size_t end = 0;
    const auto take = [&end](std::size_t bytes) {
      const std::size_t begin = end;
      end += (bytes + 15) / 8 * 8;  // with a gap that nothing may touch
      return begin;
    };
    indices_ = take(rows * at * 4);
    top_values_ = take(rows * k * value);
    top_indices_ = take(rows * k * 4);
    values_at_ = take(rows * at * value);
    log_sum_exp_ = take(rows * number);
    maximum_ = take(rows * number);
    entropy_ = take(rows * number);
    block_.assign(end, kGuard);
    Random random(test.seed + 77);
    for (std::size_t i = 0; i < rows * at; ++i) {
      const auto index = static_cast<std::int32_t>(random.Below(test.cols + 1) - 1);
      std::memcpy(block_.data() + indices_ + 4 * i, &index, 4);
    }
  }

  // The summary of `rows` with its arrays in a copy of block() at `base`.
  SummarySegment Bind(const Segment& rows, std::byte* base) const {
    SummarySegment summary;
    summary.rows = rows;
    summary.top_k = ask_.top_k;
    summary.at = ask_.at;
    if (ask_.at > 0) {
      summary.indices = reinterpret_cast<const std::int32_t*>(base + indices_);
      summary.values_at = base + values_at_;
    }
    if (ask_.top_k > 0) {
      summary.top_values = base + top_values_;
      summary.top_indices = reinterpret_cast<std::int32_t*>(base + top_indices_);
    }
    if (ask_.log_sum_exp) {
      summary.log_sum_exp = base + log_sum_exp_;
      summary.maximum = base + maximum_;
    }
    if (ask_.entropy) summary.entropy = base + entropy_;
    return summary;
  }
  std::vector<std::byte>& block() { return block_; }

 private:
  const KernelCase test_;
  const SummaryAsk ask_;
  std::size_t indices_, top_values_, top_indices_, values_at_, log_sum_exp_, maximum_, entropy_;
  std::vector<std::byte> block_;
};

// What is wrong with a summary whose arrays and input are in host memory; empty: nothing. `rows.output` is the whole
// answer.
inline std::string FaultOf(DataType input_type, DataType output_type, const SummarySegment& summary) {
  const kernels::Judgement judgement = kernels::JudgeSummary(input_type, output_type, summary, kernels::Bounds::kUsual);
  if (!judgement.ok) return judgement.message;
  const Segment& rows = summary.rows;
  const std::size_t size = SizeOf(output_type);
  const auto differs = [&](std::int64_t row, std::int64_t index, const void* values, std::int64_t place) {
    if (index < 0) return false;  // the reference has judged it
    const std::int64_t at = row / rows.inner * rows.output_stride + index * rows.inner + row % rows.inner;
    // Which NaN it is says nothing.
    if (std::isnan(kernels::LoadElement(output_type, rows.output, at)) &&
        std::isnan(kernels::LoadElement(output_type, values, place))) {
      return false;
    }
    return std::memcmp(static_cast<const std::byte*>(rows.output) + at * static_cast<std::int64_t>(size),
                       static_cast<const std::byte*>(values) + place * static_cast<std::int64_t>(size), size) != 0;
  };
  for (std::int64_t row = 0; row < rows.outer * rows.inner; ++row) {
    for (std::int64_t i = row * summary.top_k; i < (row + 1) * summary.top_k; ++i) {
      if (differs(row, summary.top_indices[i], summary.top_values, i)) {
        return "top value " + std::to_string(i) + " has other bits than the whole answer";
      }
    }
    for (std::int64_t i = row * summary.at; i < (row + 1) * summary.at; ++i) {
      if (differs(row, summary.indices[i], summary.values_at, i)) {
        return "chosen value " + std::to_string(i) + " has other bits than the whole answer";
      }
    }
  }
  return "";
}

inline std::string FaultOf(const KernelCase& test, const SummarySegment& summary) {
  const std::string fault = FaultOf(test.input_type, test.output_type, summary);
  return fault.empty() ? "" : NameOf(test) + ": " + fault;
}

}  // namespace softmax::testing
