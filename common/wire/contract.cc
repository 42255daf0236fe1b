#include "common/wire/contract.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/operations.h"

namespace softmax {
namespace {

constexpr std::int32_t kFirstDtype = 1;
constexpr std::int32_t kLastDtype = 4;
constexpr auto kLastOperation = static_cast<std::int32_t>(kernels::kOperations.size());

// More elements than this could not be counted in bytes of any type within 63 bits.
constexpr std::int64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 8;

// An answer's header is at most 204 bytes: id 11, timing 2 + 44, summary 6 + 6 * 6, output 6 + 2 + 2 + 80 + 6, stream
// element 6.
constexpr std::uint64_t kAnswerHeaderBytes = 204;
constexpr std::uint64_t kMaxMessageBytes = std::numeric_limits<std::int32_t>::max();

template <typename... Args>
[[gnu::cold]] absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckTypes(const RawRequest& raw, TensorSpec* spec) {
  if (!raw.has_input) return Refuse("input: is absent; must be set");
  if (raw.dtype < kFirstDtype || raw.dtype > kLastDtype) {
    return Refuse("input.dtype: is ", raw.dtype, "; must be ", kFirstDtype, " to ", kLastDtype);
  }
  if (raw.output_dtype < 0 || raw.output_dtype > kLastDtype) {
    return Refuse("output_dtype: is ", raw.output_dtype, "; must be 0 to ", kLastDtype);
  }
  if (raw.operation < 0 || raw.operation > kLastOperation) {
    return Refuse("operation: is ", raw.operation, "; must be 0 to ", kLastOperation);
  }
  // Written so that NaN fails.
  if (raw.has_scale && !(raw.scale > 0 && std::isfinite(raw.scale))) {
    return Refuse("scale: is ", raw.scale, "; must be finite and > 0");
  }
  spec->input_type = static_cast<kernels::DataType>(raw.dtype);
  spec->output_type = raw.output_dtype == 0 ? spec->input_type : static_cast<kernels::DataType>(raw.output_dtype);
  spec->operation = raw.operation == 0 ? kernels::Operation::kSoftmax : static_cast<kernels::Operation>(raw.operation);
  spec->scale = raw.has_scale ? raw.scale : 1.0;
  return absl::OkStatus();
}

// A zero dimension makes a tensor empty but excuses no other: the product of the dimensions that
// are not zero has to be countable, so that no product of any of them can overflow later.
absl::Status CheckShape(const RawRequest& raw, const WireLimits& limits) {
  const std::uint32_t max_rank = std::min(limits.max_rank, kMaxShapeRank);
  if (raw.rank < 1 || raw.rank > max_rank) {
    return Refuse("input.shape: has rank ", raw.rank, "; must be 1 to ", max_rank, " (max_rank)");
  }
  std::int64_t product = 1;
  for (std::uint64_t i = 0; i < raw.rank; ++i) {
    const std::int64_t dimension = raw.shape[i];
    if (dimension < 0) {
      return Refuse("input.shape: dimension ", i, " is ", dimension, "; must be >= 0");
    }
    if (dimension == 0) continue;
    if (dimension > kMaxElements / product) {
      return Refuse("input.shape: the product of the dimensions that are not 0 passes ", kMaxElements, " at dimension ",
                    i, ", which is ", dimension, "; must be at most ", kMaxElements);
    }
    product *= dimension;
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(const RawRequest& raw, TensorSpec* spec) {
  const auto rank = static_cast<std::int32_t>(raw.rank);
  const std::int32_t sent = raw.has_axis ? raw.axis : -1;
  if (sent < -rank || sent >= rank) {
    return Refuse("axis: is ", sent, "; must be ", -rank, " to ", rank - 1, " at rank ", rank);
  }
  const std::int32_t axis = sent < 0 ? sent + rank : sent;
  spec->outer = 1;
  spec->inner = 1;
  spec->cols = raw.shape[axis];
  for (std::int32_t i = 0; i < axis; ++i) spec->outer *= raw.shape[i];
  for (std::int32_t i = axis + 1; i < rank; ++i) spec->inner *= raw.shape[i];
  return absl::OkStatus();
}

std::string ShapeText(const RawRequest& raw) {
  std::string text = "[";
  for (std::uint64_t i = 0; i < raw.rank; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", raw.shape[i]);
  }
  return text + "]";
}

absl::Status CheckSizes(const RawRequest& raw, const WireLimits& limits, const TensorSpec& spec) {
  if (static_cast<std::uint64_t>(spec.rows()) > limits.max_rows) {
    return Refuse("input.shape: ", ShapeText(raw), " has ", spec.rows(), " rows; must be at most ", limits.max_rows,
                  " (max_rows)");
  }
  if (static_cast<std::uint64_t>(spec.cols) > limits.max_columns) {
    return Refuse("input.shape: the axis has ", spec.cols, " elements; must be at most ", limits.max_columns,
                  " (max_columns)");
  }
  if (raw.data_size != spec.input_bytes()) {
    return Refuse("input.data: has ", raw.data_size, " bytes; must be ", spec.input_bytes(), " for shape ",
                  ShapeText(raw), " of ", kernels::SizeOf(spec.input_type), "-byte elements");
  }
  const std::uint64_t request_bytes = raw.data_size + raw.lengths_count * sizeof(std::uint32_t) + raw.indices_size;
  if (request_bytes > limits.max_request_bytes) {
    return Refuse("input.data: the data", raw.indices_size > 0 ? ", lengths and indices" : " and lengths", " have ",
                  request_bytes, " bytes; must be at most ", limits.max_request_bytes, " (max_request_bytes)");
  }
  const std::uint64_t limit = std::min(limits.max_response_bytes, kMaxMessageBytes - kAnswerHeaderBytes);
  if (spec.output_bytes() > limit) {
    if (spec.summary.any()) {
      return Refuse("summary: makes an answer of ", spec.output_bytes(), " bytes; must be at most ", limit,
                    " (max_response_bytes)");
    }
    return Refuse("output_dtype: ", static_cast<int>(spec.output_type), " makes an answer of ", spec.output_bytes(),
                  " bytes; must be at most ", limit, " (max_response_bytes)");
  }
  return absl::OkStatus();
}

absl::Status CheckLengths(const RawRequest& raw, const TensorSpec& spec) {
  if (raw.lengths_count == 0) return absl::OkStatus();
  if (raw.lengths_count != static_cast<std::uint64_t>(spec.rows())) {
    return Refuse("lengths: has ", raw.lengths_count, " values; must be 0 or ", spec.rows(), ", one per row");
  }
  if (raw.lengths_largest > spec.cols) {
    return Refuse("lengths: value ", raw.lengths_largest_at, " is ", raw.lengths_largest, "; must be at most ",
                  spec.cols, ", the axis length");
  }
  return absl::OkStatus();
}

absl::Status CheckSummary(const RawRequest& raw, const WireLimits& limits, TensorSpec* spec) {
  if (!raw.has_summary) return absl::OkStatus();
  if (raw.top_k > limits.max_top_k) {
    return Refuse("summary.top_k: is ", raw.top_k, "; must be at most ", limits.max_top_k, " (max_top_k)");
  }
  if (raw.top_k == 0 && raw.indices_size == 0 && !raw.log_sum_exp && !raw.entropy && !raw.full) {
    return Refuse("summary: asks for nothing; must have a top_k of 1 to ", limits.max_top_k,
                  " (max_top_k), indices, log_sum_exp, entropy or full");
  }
  const std::uint64_t each = static_cast<std::uint64_t>(spec->rows()) * sizeof(std::int32_t);
  if (each == 0 ? raw.indices_size != 0 : raw.indices_size % each != 0) {
    return Refuse("summary.indices: has ", raw.indices_size, " bytes; must be a multiple of ", each,
                  ", 4 bytes for each row");
  }
  spec->summary.top_k = raw.top_k;
  spec->summary.at = each == 0 ? 0 : static_cast<std::int64_t>(raw.indices_size / each);
  spec->summary.log_sum_exp = raw.log_sum_exp;
  spec->summary.entropy = raw.entropy;
  spec->summary.partial = raw.top_k > 0 || spec->summary.at > 0 || raw.log_sum_exp || raw.entropy;
  spec->summary.full = raw.full;
  return absl::OkStatus();
}

// A piece at a time: bad ones cost no memory.
absl::Status CheckIndices(const RawRequest& raw, const TensorSpec& spec) {
  std::array<std::int32_t, 1024> piece;
  WireCursor cursor = raw.indices_begin;
  const std::uint64_t count = raw.indices_size / sizeof(std::int32_t);
  for (std::uint64_t begin = 0; begin < count; begin += piece.size()) {
    const std::uint64_t some = std::min<std::uint64_t>(piece.size(), count - begin);
    cursor.Read(some * sizeof(std::int32_t), piece.data());
    const auto is_bad = [&spec](std::int32_t index) { return index < -1 || index >= spec.cols; };
    const auto end = piece.begin() + static_cast<std::ptrdiff_t>(some);
    const auto bad = std::find_if(piece.begin(), end, is_bad);
    if (bad == end) continue;
    const std::uint64_t at = begin + static_cast<std::uint64_t>(bad - piece.begin());
    return Refuse("summary.indices: value ", at, ", of row ", at / static_cast<std::uint64_t>(spec.summary.at), ", is ",
                  *bad, "; must be -1 (none) or from 0 to ", spec.cols - 1, ", below the axis length");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyContract(const RawRequest& raw, const WireLimits& limits, DecodedRequest* out) {
  TensorSpec& spec = out->spec;
  if (absl::Status status = CheckTypes(raw, &spec); !status.ok()) return status;
  if (absl::Status status = CheckShape(raw, limits); !status.ok()) return status;
  if (absl::Status status = CheckAxis(raw, &spec); !status.ok()) return status;
  if (absl::Status status = CheckSummary(raw, limits, &spec); !status.ok()) return status;
  if (absl::Status status = CheckSizes(raw, limits, spec); !status.ok()) return status;
  if (absl::Status status = CheckLengths(raw, spec); !status.ok()) return status;
  if (absl::Status status = CheckIndices(raw, spec); !status.ok()) return status;
  out->timeout_us = raw.timeout_us;
  out->rank = static_cast<std::uint32_t>(raw.rank);
  std::copy_n(raw.shape, kMaxShapeRank, out->shape);
  out->payload_offset = raw.data_offset;
  // Bounded by the payload: a tensor that is not empty has at least two bytes per row, and an empty
  // one has no element to mask, so its lengths are checked and forgotten.
  spec.has_lengths = raw.lengths_count > 0 && spec.elements() > 0;
  if (spec.has_lengths) {
    out->lengths.resize(raw.lengths_count);
    ReadLengths(raw, out->lengths.data());
  }
  // An empty tensor has no element to ask for, so its indices are checked and forgotten, too.
  if (spec.elements() == 0) spec.summary.at = 0;
  if (spec.summary.at > 0) {
    out->indices.resize(raw.indices_size / sizeof(std::int32_t));
    ReadIndices(raw, out->indices.data());
  }
  return absl::OkStatus();
}

}  // namespace softmax
