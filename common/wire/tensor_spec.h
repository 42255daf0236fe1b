#pragma once

#include <cstdint>

#include "kernels/operations.h"
#include "kernels/types.h"

namespace softmax {

// What a request wants of each row instead of the whole tensor (the proto's SummaryRequest).
struct SummarySpec {
  std::uint32_t top_k = 0;
  std::int64_t at = 0;  // indices a row
  bool log_sum_exp = false;
  bool entropy = false;
  bool partial = false;  // anything of these is wanted
  bool full = false;     // the whole tensor is, too

  bool any() const { return partial; }
};

// The parts of a summary in memory, in the order of the proto's Summary, each from a multiple of 8 bytes on.
struct SummaryLayout {
  enum Part : std::uint8_t { kTopValues, kTopIndices, kValuesAt, kLogSumExp, kMaximum, kEntropy, kParts };
  std::uint64_t offset[kParts] = {};
  std::uint64_t bytes[kParts] = {};  // 0: not wanted
  std::uint64_t payload = 0;         // of all parts
  std::uint64_t end = 0;             // of the last part, with the gaps between them
  std::uint64_t total = 0;           // that, up to the next multiple of 8
};

// A validated request's geometry: the tensor seen as [outer, cols, inner] around its axis, and what to compute. All
// products below fit in 63 bits; the decoder checked that before it made one.
struct TensorSpec {
  kernels::DataType input_type = kernels::DataType::kFloat32;
  kernels::DataType output_type = kernels::DataType::kFloat32;
  kernels::Operation operation = kernels::Operation::kSoftmax;
  double scale = 1.0;
  std::int64_t outer = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 1;
  bool has_lengths = false;
  SummarySpec summary;
  // What lies in regions instead of messages (the proto's Place).
  bool input_in_region = false;
  bool output_in_region = false;
  bool summary_in_region = false;
  // What a contract adds to it (the Open Inference Protocol's classifications and typed contents).
  std::uint64_t texts = 0;       // numbers of the summary that the answer carries as texts
  std::uint64_t text_bytes = 0;  // of those, at most
  std::uint64_t pieces = 0;      // that the input has to be gathered from, one by one; 0: it lies in the message

  bool is_log() const { return kernels::TraitsOf(operation).is_log; }
  std::int64_t rows() const { return outer * inner; }
  std::uint64_t elements() const { return static_cast<std::uint64_t>(outer * cols * inner); }
  std::uint64_t input_bytes() const { return elements() * kernels::SizeOf(input_type); }
  std::uint64_t lengths_bytes() const { return has_lengths ? static_cast<std::uint64_t>(rows()) * 4 : 0; }
  std::uint64_t indices_bytes() const {
    return elements() == 0 ? 0 : static_cast<std::uint64_t>(rows() * summary.at) * sizeof(std::int32_t);
  }
  bool has_tensor() const { return summary.full || !summary.any(); }
  // The whole tensor of the answer; 0 where it is not wanted.
  std::uint64_t tensor_bytes() const { return has_tensor() ? elements() * kernels::SizeOf(output_type) : 0; }
  // The summary's parts; 0 where none is wanted.
  std::uint64_t summary_bytes() const { return summary.any() ? summary_layout().payload : 0; }
  // Of the input, what the request's message carries.
  std::uint64_t received_bytes() const { return input_in_region ? 0 : input_bytes(); }
  // Of the tensor and the summary, what the answer's message carries.
  std::uint64_t output_bytes() const {
    return (output_in_region ? 0 : tensor_bytes()) + (summary_in_region ? 0 : summary_bytes());
  }
  bool in_regions() const { return input_in_region || output_in_region || summary_in_region; }
  // Of all three, what lies in regions.
  std::uint64_t region_bytes() const {
    return input_bytes() - received_bytes() + tensor_bytes() + summary_bytes() - output_bytes();
  }
  SummaryLayout summary_layout() const;
};

inline SummaryLayout TensorSpec::summary_layout() const {
  SummaryLayout layout;
  if (elements() == 0) return layout;
  const auto row_count = static_cast<std::uint64_t>(rows());
  const std::uint64_t value = kernels::SizeOf(output_type);
  const std::uint64_t number = input_type == kernels::DataType::kFloat64 ? 8 : 4;
  const auto add = [&](SummaryLayout::Part part, std::uint64_t bytes) {
    layout.offset[part] = layout.total;
    layout.bytes[part] = bytes;
    layout.payload += bytes;
    if (bytes > 0) layout.end = layout.total + bytes;
    layout.total += (bytes + 7) / 8 * 8;
  };
  add(SummaryLayout::kTopValues, row_count * summary.top_k * value);
  add(SummaryLayout::kTopIndices, row_count * summary.top_k * sizeof(std::int32_t));
  add(SummaryLayout::kValuesAt, row_count * static_cast<std::uint64_t>(summary.at) * value);
  add(SummaryLayout::kLogSumExp, summary.log_sum_exp ? row_count * number : 0);
  add(SummaryLayout::kMaximum, summary.log_sum_exp ? row_count * number : 0);
  add(SummaryLayout::kEntropy, summary.entropy ? row_count * number : 0);
  return layout;
}

}  // namespace softmax
