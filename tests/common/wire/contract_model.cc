#include "tests/common/wire/contract_model.h"

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
  if (Product(dims) * Size(dtype) != input.data().size()) return {"input.data"};
  const std::uint64_t request_bytes =
      input.data().size() + summary.indices().size() + 4ull * static_cast<std::uint64_t>(request.lengths_size());
  if (request_bytes > limits.max_request_bytes) return {"input.data"};
  const bool has_tensor = !partial || summary.full();
  Wide answer = has_tensor ? Product(dims) * Size(output_dtype) : 0;
  if (partial && Product(dims) > 0) {
    const Wide numbers = (summary.log_sum_exp() ? 2 : 0) + (summary.entropy() ? 1 : 0);
    answer += rows * summary.top_k() * (Size(output_dtype) + 4) + chosen * Size(output_dtype) +
              rows * numbers * (dtype == 4 ? 8 : 4);
  }
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
