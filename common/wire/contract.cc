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

// An answer's header is at most 226 bytes: id 11, timing 2 + 44, summary 6 + 6 * 6 (its place has less), output
// 6 + 2 + 2 + 80 + 31 for its place (before its data stand 6), stream element 6.
constexpr std::uint64_t kAnswerHeaderBytes = 226;
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

absl::Status CheckExtents(const RawRequest& raw, const WireLimits& limits, const TensorSpec& spec) {
  if (static_cast<std::uint64_t>(spec.rows()) > limits.max_rows) {
    return Refuse("input.shape: ", ShapeText(raw), " has ", spec.rows(), " rows; must be at most ", limits.max_rows,
                  " (max_rows)");
  }
  if (static_cast<std::uint64_t>(spec.cols) > limits.max_columns) {
    return Refuse("input.shape: the axis has ", spec.cols, " elements; must be at most ", limits.max_columns,
                  " (max_columns)");
  }
  return absl::OkStatus();
}

// A part of the request or of its answer that lies in a region.
struct Placed {
  const char* name;
  const RawPlace& place;
  std::uint64_t bytes;
  std::uint64_t alignment;
};

absl::Status CheckPlace(const Placed& placed, const WireLimits& limits) {
  const RawPlace& place = placed.place;
  if (!place.is_set) return absl::OkStatus();
  if (limits.max_tensor_bytes == 0) {
    return Refuse(placed.name, ": is set; must be absent, for this server has no regions (--regions-socket)");
  }
  if (place.region_size != kTokenBytes) {
    return Refuse(placed.name, ".region: has ", place.region_size, " bytes; must be ", kTokenBytes);
  }
  if (place.offset % placed.alignment != 0) {
    return Refuse(placed.name, ".offset: is ", place.offset, "; must be a multiple of ", placed.alignment);
  }
  if (placed.bytes > limits.max_tensor_bytes) {
    return Refuse(placed.name, ": has ", placed.bytes, " bytes to hold; must be at most ", limits.max_tensor_bytes,
                  " (max_tensor_bytes)");
  }
  return absl::OkStatus();
}

absl::Status CheckApart(const Placed& a, const Placed& b, const char* otherwise) {
  const std::uint64_t from_a = a.place.offset;
  const std::uint64_t from_b = b.place.offset;
  const bool one_region = a.place.is_set && b.place.is_set && a.place.region == b.place.region;
  const bool apart = from_a < from_b ? from_b - from_a >= a.bytes : from_a - from_b >= b.bytes;
  // An empty tensor has no bytes in any part.
  if (!one_region || apart || a.bytes == 0) return absl::OkStatus();
  return Refuse(b.name, ".offset: is ", from_b, ", of ", b.bytes, " bytes that overlap ", a.name, "'s ", a.bytes,
                " at ", from_a, "; must be apart", otherwise);
}

// What needs no look at the regions.
absl::Status CheckPlaces(const RawRequest& raw, const WireLimits& limits, TensorSpec* spec) {
  const std::uint64_t output_size = kernels::SizeOf(spec->output_type);
  const Placed input{"input.place", raw.input_place, spec->input_bytes(), kernels::SizeOf(spec->input_type)};
  const Placed output{"output_place", raw.output_place, spec->tensor_bytes(), output_size};
  const Placed summary{"summary_place", raw.summary_place, spec->summary.any() ? spec->summary_layout().end : 0, 8};
  for (const Placed* placed : {&input, &output, &summary}) {
    if (absl::Status status = CheckPlace(*placed, limits); !status.ok()) return status;
  }
  if (output.place.is_set && !spec->has_tensor()) {
    return Refuse("output_place: is set; must be absent with a summary without `full`");
  }
  if (summary.place.is_set && !spec->summary.any()) {
    return Refuse("summary_place: is set; must be absent without a summary");
  }
  const bool in_place = input.alignment == output.alignment && input.place.offset == output.place.offset;
  absl::Status status =
      in_place ? absl::OkStatus() : CheckApart(input, output, ", or the input's own place with types of one size");
  if (status.ok()) status = CheckApart(input, summary, "");
  if (status.ok()) status = CheckApart(output, summary, "");
  spec->input_in_region = input.place.is_set;
  spec->output_in_region = output.place.is_set;
  spec->summary_in_region = summary.place.is_set;
  return status;
}

absl::Status CheckSizes(const RawRequest& raw, const WireLimits& limits, const TensorSpec& spec) {
  if (spec.input_in_region && raw.data_size > 0) {
    return Refuse("input.data: has ", raw.data_size, " bytes; must be empty beside input.place");
  }
  if (raw.data_size != spec.received_bytes()) {
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
  if (absl::Status status = CheckExtents(raw, limits, spec); !status.ok()) return status;
  if (absl::Status status = CheckPlaces(raw, limits, &spec); !status.ok()) return status;
  if (absl::Status status = CheckSizes(raw, limits, spec); !status.ok()) return status;
  if (absl::Status status = CheckLengths(raw, spec); !status.ok()) return status;
  if (absl::Status status = CheckIndices(raw, spec); !status.ok()) return status;
  out->timeout_us = raw.timeout_us;
  out->rank = static_cast<std::uint32_t>(raw.rank);
  std::copy_n(raw.shape, kMaxShapeRank, out->shape);
  out->payload_offset = raw.data_offset;
  out->input_place = {raw.input_place.region, raw.input_place.offset};
  out->output_place = {raw.output_place.region, raw.output_place.offset};
  out->summary_place = {raw.summary_place.region, raw.summary_place.offset};
  // Bounded by the message. An empty tensor has no element to mask, so its lengths are checked and forgotten.
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
