#include "client/softmax_client/request.h"

#include <absl/strings/str_cat.h>

#include <array>

#include "client/c/parts.h"

namespace softmax::client::c {
namespace {

bool IsType(std::int32_t number) { return number >= SOFTMAX_FLOAT32 && number <= SOFTMAX_FLOAT64; }

absl::Status CheckNumbers(const softmax_request& request) {
  if (!IsType(request.dtype))
    return absl::InvalidArgumentError(absl::StrCat("dtype: ", request.dtype, ", must be 1 to 4"));
  if (request.output_dtype != 0 && !IsType(request.output_dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("output_dtype: ", request.output_dtype, ", must be 0 to 4"));
  }
  if (request.rank < 1 || request.rank > SOFTMAX_MAX_RANK || request.shape == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("rank: ", request.rank, ", must be 1 to 8, with a shape"));
  }
  if (request.operation != SOFTMAX_SOFTMAX && request.operation != SOFTMAX_LOG_SOFTMAX) {
    return absl::InvalidArgumentError(absl::StrCat("operation: ", request.operation, ", must be 1 or 2"));
  }
  if (!ElementsOf({request.shape, static_cast<std::size_t>(request.rank)})) {
    return absl::InvalidArgumentError("shape: a dimension is below 0, or there are too many elements");
  }
  return absl::OkStatus();
}

DataType AnswerType(const softmax_request& request) {
  return static_cast<DataType>(request.output_dtype != 0 ? request.output_dtype : request.dtype);
}

bool HasRows(const softmax_request& request) {
  if (!CheckNumbers(request).ok() || request.axis < -request.rank || request.axis >= request.rank) return false;
  return ElementsOf({request.shape, static_cast<std::size_t>(request.rank)}) != 0;
}

// All but where the answer is to lie. Its numbers are checked; `input` is not looked into.
void DescribeInput(const softmax_request& request, const void* input, Described* described) {
  TensorView& view = described->input;
  view.dtype = static_cast<DataType>(request.dtype);
  view.shape = {request.shape, static_cast<std::size_t>(request.rank)};
  view.data = {static_cast<const std::byte*>(input), *ElementsOf(view.shape) * SizeOf(view.dtype)};
  SoftmaxOptions& options = described->options;
  options.operation = static_cast<Operation>(request.operation);
  options.axis = request.axis;
  if (request.has_scale != 0) options.scale = request.scale;
  if (request.output_dtype != 0) options.output_dtype = AnswerType(request);
  options.lengths = {request.lengths, request.lengths_count};
  if (request.timeout_ns != 0) options.timeout = std::chrono::nanoseconds(request.timeout_ns);
  options.summary.top_k = request.top_k;
  options.summary.indices = {request.indices, request.indices_count};
  options.summary.log_sum_exp = request.log_sum_exp != 0;
  options.summary.entropy = request.entropy != 0;
  options.trace = {TextOf(request.traceparent), TextOf(request.tracestate)};
}

}  // namespace

absl::Status Describe(const softmax_request& given, const void* input, void* output, Described* described) {
  const softmax_request request = Sized(given);
  if (absl::Status valid = CheckNumbers(request); !valid.ok()) return valid;
  DescribeInput(request, input, described);
  const std::uint64_t elements = *ElementsOf(described->input.shape);
  const struct {
    const char* name;
    const void* memory;
    std::uint64_t count;
  } needed[] = {{"input", input, elements},
                {"output", output, elements},
                {"lengths", request.lengths, request.lengths_count},
                {"indices", request.indices, request.indices_count}};
  for (const auto& need : needed) {
    if (need.memory == nullptr && need.count > 0) {
      return absl::InvalidArgumentError(absl::StrCat(need.name, ": is NULL, but ", need.count, " elements are needed"));
    }
  }
  SoftmaxOptions& options = described->options;
  auto* const to = static_cast<std::byte*>(output);
  if (options.summary.any()) {
    options.summary.output = {to, softmax_summary_layout(&request, nullptr, nullptr)};
  } else {
    options.output = described->output = {to, elements * SizeOf(AnswerType(request))};
  }
  return absl::OkStatus();
}

StreamOptions StreamOptionsOf(const softmax_stream_options& given) {
  const softmax_stream_options options = Sized(given);
  return {.max_in_flight = options.max_in_flight,
          .max_requests_per_message = options.max_requests_per_message,
          .timeout =
              options.timeout_ns == 0 ? std::nullopt : std::make_optional<std::chrono::nanoseconds>(options.timeout_ns),
          .trace = {TextOf(options.traceparent), TextOf(options.tracestate)}};
}

}  // namespace softmax::client::c

std::uint64_t softmax_summary_layout(const softmax_request* given, std::uint64_t* offsets, std::uint64_t* sizes) {
  const softmax_request request = softmax::client::c::Sized(*given);
  std::array<std::uint64_t, softmax::client::Summary::kParts> parts = {};
  if (softmax::client::c::HasRows(request)) {
    softmax::client::c::Described described;
    softmax::client::c::DescribeInput(request, nullptr, &described);
    parts = softmax::client::ExpectedAnswer(described.input, described.options).part_bytes;
  }
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (offsets != nullptr) offsets[i] = end;
    if (sizes != nullptr) sizes[i] = parts[i];
    end += (parts[i] + 7) / 8 * 8;
  }
  return end;
}
