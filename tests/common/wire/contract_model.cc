#include "tests/common/wire/contract_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/wire/bounds.h"
#include "tests/common/wire/bounds_model.h"

namespace softmax::testing {
namespace {

// Wide enough for the ceiling times a dimension. Products above the ceiling stay there.
using Wide = unsigned __int128;
constexpr Wide kCeiling = Wide{1} << 64;

Wide Product(const std::vector<std::int64_t>& dims) {
  Wide product = 1;
  for (const std::int64_t dim : dims) {
    product *= static_cast<Wide>(dim);
    if (product > kCeiling) product = kCeiling;
  }
  return product;
}

std::vector<std::int64_t> Dims(const v1::Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

std::size_t Size(int dtype) { return dtype == 1 ? 4 : dtype == 4 ? 8 : 2; }

std::uint64_t RoundUp(Wide bytes) { return static_cast<std::uint64_t>((bytes + 7) / 8 * 8); }

// A part of the request or its answer that may lie in a region.
struct Part {
  const char* name;
  bool is_placed;
  const v1::Place& place;
  Wide bytes;
  std::size_t alignment;

  Wide begin() const { return place.offset(); }
  Wide end() const { return begin() + bytes; }
};

bool Overlap(const Part& a, const Part& b) {
  if (!a.is_placed || !b.is_placed || a.place.region() != b.place.region()) return false;
  return std::max(a.begin(), b.begin()) < std::min(a.end(), b.end());
}

// The field that a request is refused for; empty: none.
std::string FaultOfPlaces(const Part& input, const Part& output, const Part& summary, const WireLimits& limits) {
  for (const Part* part : {&input, &output, &summary}) {
    if (!part->is_placed) continue;
    const std::string name = part->name;
    if (limits.max_tensor_bytes == 0) return name;
    if (part->place.region().size() != 16) return name + ".region";
    if (part->place.offset() % part->alignment != 0) return name + ".offset";
    if (part->bytes > limits.max_tensor_bytes) return name;
  }
  return "";
}

bool ShapeIsGood(std::vector<std::int64_t> dims, const WireLimits& limits) {
  if (dims.empty() || dims.size() > limits.max_rank) return false;
  for (std::int64_t& dim : dims) {
    if (dim < 0) return false;
    if (dim == 0) dim = 1;
  }
  return Product(dims) * 8 <= Wide{INT64_MAX};
}

}  // namespace

Verdict Judge(const v1::SoftmaxRequest& request, const WireLimits& limits) {
  const v1::Tensor& input = request.input();
  if (FieldsOf(request) > kMaxFields) return {"request"};
  if (input.shape_size() > static_cast<int>(kMaxDimensions)) return {"input.shape"};
  if (!request.has_input()) return {"input"};
  const int dtype = input.dtype();
  if (dtype == 0 || !v1::DataType_IsValid(dtype)) return {"input.dtype"};
  if (!v1::DataType_IsValid(request.output_dtype())) return {"output_dtype"};
  if (!v1::Operation_IsValid(request.operation())) return {"operation"};
  const double scale = request.has_scale() ? request.scale() : 1.0;
  if (std::isnan(scale) || std::isinf(scale) || scale <= 0) return {"scale"};
  const std::vector<std::int64_t> dims = Dims(input);
  if (!ShapeIsGood(dims, limits)) return {"input.shape"};
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::int64_t axis = request.has_axis() ? request.axis() : -1;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return {"axis"};

  Verdict verdict;
  TensorSpec& spec = verdict.spec;
  const auto begin = dims.begin();
  spec.outer = static_cast<std::int64_t>(Product({begin, begin + axis}));
  spec.cols = dims[axis];
  spec.inner = static_cast<std::int64_t>(Product({begin + axis + 1, dims.end()}));
  const Wide rows = static_cast<Wide>(spec.outer) * static_cast<Wide>(spec.inner);
  const int output_dtype = request.output_dtype() == 0 ? dtype : request.output_dtype();
  const v1::SummaryRequest& summary = request.summary();
  const std::uint64_t chosen = summary.indices().size() / 4;
  const bool partial = summary.top_k() > 0 || chosen > 0 || summary.log_sum_exp() || summary.entropy();
  if (request.has_summary()) {
    if (summary.top_k() > limits.max_top_k) return {"summary.top_k"};
    if (!partial && summary.indices().empty() && !summary.full()) return {"summary"};
    if (rows == 0 ? !summary.indices().empty() : summary.indices().size() % (4 * rows) != 0) {
      return {"summary.indices"};
    }
  }
  if (rows > limits.max_rows) return {"input.shape"};
  if (static_cast<std::uint64_t>(spec.cols) > limits.max_columns) return {"input.shape"};
  const bool has_tensor = !partial || summary.full();
  const bool is_empty = Product(dims) == 0;
  const Wide tensor = has_tensor ? Product(dims) * Size(output_dtype) : 0;
  const Wide number = dtype == 4 ? 8 : 4;
  Wide parts = 0, parts_end = 0;
  if (partial && !is_empty) {
    Wide at = 0;
    for (const Wide bytes : {rows * summary.top_k() * Size(output_dtype), rows * summary.top_k() * 4,
                             chosen * Wide{Size(output_dtype)}, summary.log_sum_exp() ? rows * number : 0,
                             summary.log_sum_exp() ? rows * number : 0, summary.entropy() ? rows * number : 0}) {
      parts += bytes;
      if (bytes > 0) parts_end = at + bytes;
      at += RoundUp(bytes);
    }
  }
  const Part input_part{"input.place", input.has_place(), input.place(), Product(dims) * Size(dtype), Size(dtype)};
  const Part output_part{"output_place", request.has_output_place(), request.output_place(), tensor,
                         Size(output_dtype)};
  const Part summary_part{"summary_place", request.has_summary_place(), request.summary_place(), parts_end, 8};
  if (std::string field = FaultOfPlaces(input_part, output_part, summary_part, limits); !field.empty()) return {field};
  if (output_part.is_placed && !has_tensor) return {"output_place"};
  if (summary_part.is_placed && !partial) return {"summary_place"};
  const bool in_place = Size(dtype) == Size(output_dtype) && input.place().offset() == request.output_place().offset();
  if (!in_place && Overlap(input_part, output_part)) return {"output_place.offset"};
  if (Overlap(input_part, summary_part) || Overlap(output_part, summary_part)) return {"summary_place.offset"};
  spec.input_in_region = input_part.is_placed;
  spec.output_in_region = output_part.is_placed;
  spec.summary_in_region = summary_part.is_placed;
  if (input_part.is_placed ? !input.data().empty() : input_part.bytes != input.data().size()) return {"input.data"};
  const std::uint64_t request_bytes =
      input.data().size() + summary.indices().size() + 4ull * static_cast<std::uint64_t>(request.lengths_size());
  if (request_bytes > limits.max_request_bytes) return {"input.data"};
  const Wide answer = (output_part.is_placed ? 0 : tensor) + (summary_part.is_placed ? 0 : parts);
  if (answer > limits.max_response_bytes) return {partial ? "summary" : "output_dtype"};
  if (request.lengths_size() != 0) {
    if (static_cast<Wide>(request.lengths_size()) != rows) return {"lengths"};
    for (const std::uint32_t length : request.lengths()) {
      if (length > spec.cols) return {"lengths"};
    }
    spec.has_lengths = Product(dims) > 0;
    if (spec.has_lengths) {
      verdict.lengths.assign(request.lengths().begin(), request.lengths().end());
    }
  }
  for (std::size_t i = 0; i < chosen; ++i) {
    std::int32_t index = 0;
    std::memcpy(&index, summary.indices().data() + 4 * i, 4);
    if (index < -1 || index >= spec.cols) return {"summary.indices"};
    if (Product(dims) > 0) verdict.indices.push_back(index);
  }
  if (Product(dims) > 0) spec.summary.at = static_cast<std::int64_t>(chosen / static_cast<std::uint64_t>(rows));
  spec.summary.top_k = summary.top_k();
  spec.summary.log_sum_exp = summary.log_sum_exp();
  spec.summary.entropy = summary.entropy();
  spec.summary.full = summary.full();
  spec.summary.partial = partial;
  spec.input_type = static_cast<kernels::DataType>(dtype);
  spec.output_type = static_cast<kernels::DataType>(output_dtype);
  spec.operation = request.operation() == v1::OPERATION_UNSPECIFIED
                       ? kernels::Operation::kSoftmax
                       : static_cast<kernels::Operation>(request.operation());
  spec.scale = scale;
  return verdict;
}

}  // namespace softmax::testing
