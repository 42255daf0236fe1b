#include "tests/common/wire/oip_model.h"

#include <algorithm>
#include <optional>
#include <set>

#include "common/wire/bounds.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_models.h"
#include "tests/common/wire/bounds_model.h"
#include "tests/common/wire/contract_model.h"

namespace softmax::testing {
namespace {

using inference::ModelInferRequest;

int DtypeOf(const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    if (kOipTypes[i] == name) return i + 1;
  }
  return 0;
}

OipVerdict Bad(absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  OipVerdict expected;
  expected.code = code;
  return expected;
}

// Parameters that are taken anywhere, and change nothing.
const std::set<std::string> kNothing = {"binary_data", "binary_data_size", "binary_data_output", "content_type"};

bool SetParameters(const ModelInferRequest& request, const WireLimits& limits, v1::SoftmaxRequest* common,
                   OipVerdict* expected) {
  using P = inference::InferParameter;
  for (const auto& [key, value] : request.parameters()) {
    const auto kind = value.parameter_choice_case();
    const bool whole = kind == P::kInt64Param || kind == P::kUint64Param;
    const bool huge = kind == P::kUint64Param && value.uint64_param() > INT64_MAX;
    const std::int64_t number = kind == P::kInt64Param ? value.int64_param()
                                : huge                 ? INT64_MAX
                                                       : static_cast<std::int64_t>(value.uint64_param());
    if (key == "axis") {
      if (!whole) return false;
      // What no rank has is refused with the first input, after what is wrong with that in this protocol.
      common->set_axis(static_cast<std::int32_t>(std::clamp<std::int64_t>(number, INT32_MIN, INT32_MAX)));
    } else if (key == "scale") {
      if (!whole && kind != P::kDoubleParam) return false;
      common->set_scale(whole ? static_cast<double>(number) : value.double_param());
    } else if (key == "output_dtype") {
      if (kind != P::kStringParam || DtypeOf(value.string_param()) == 0) return false;
      common->set_output_dtype(static_cast<v1::DataType>(DtypeOf(value.string_param())));
    } else if (key == "timeout") {
      if (!whole || number < 0) return false;
      expected->timeout_us = static_cast<std::uint32_t>(std::min<std::int64_t>(number, UINT32_MAX));
    } else if (key == "triton_enable_empty_final_response") {
      if (kind != P::kBoolParam) return false;
    } else if (key == "top_k") {
      if (!whole || number < 1 || number > limits.max_top_k) return false;
      common->mutable_summary()->set_top_k(static_cast<std::uint32_t>(number));
    } else if (key == "log_sum_exp" || key == "entropy") {
      if (kind != P::kBoolParam) return false;
      if (!value.bool_param()) continue;
      if (key == "entropy") common->mutable_summary()->set_entropy(true);
      if (key == "log_sum_exp") common->mutable_summary()->set_log_sum_exp(true);
    } else if (key != "priority" && key.rfind("sequence_", 0) != 0 && kNothing.count(key) == 0) {
      return false;
    }
  }
  return true;
}

// The input's data as the native contract would have them; false: they are in no way that is allowed.
bool SetData(const ModelInferRequest& request, int i, v1::Tensor* tensor) {
  const inference::InferTensorContents& contents = request.inputs(i).contents();
  const bool others = contents.bool_contents_size() + contents.int_contents_size() + contents.int64_contents_size() +
                          contents.uint_contents_size() + contents.uint64_contents_size() +
                          contents.bytes_contents_size() >
                      0;
  const bool any = others || contents.fp32_contents_size() > 0 || contents.fp64_contents_size() > 0;
  if (request.raw_input_contents_size() > 0) {
    tensor->set_data(request.raw_input_contents(i));
    return !any;
  }
  if (others || (contents.fp32_contents_size() > 0 && tensor->dtype() != v1::DATA_TYPE_FLOAT32) ||
      (contents.fp64_contents_size() > 0 && tensor->dtype() != v1::DATA_TYPE_FLOAT64)) {
    return false;
  }
  const auto append = [&](const auto& values) {
    for (const auto value : values) {
      tensor->mutable_data()->append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  };
  append(contents.fp32_contents());
  append(contents.fp64_contents());
  return true;
}

// Of those of an input or output, what is not known; and whether that is so.
template <typename Parameters>
bool LeavesUnknown(Parameters* parameters) {
  for (const std::string& key : kNothing) parameters->erase(key);
  return !parameters->empty();
}

template <typename Parameters>
absl::StatusCode CodeOfParameters(const Parameters& parameters) {
  for (const char* key : {"shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"}) {
    if (parameters.count(key) > 0) return absl::StatusCode::kUnimplemented;
  }
  return absl::StatusCode::kInvalidArgument;
}

// The endings of the outputs that a request's parameters offer beside the whole tensor.
std::set<std::string> Offered(const v1::SummaryRequest& summary) {
  std::set<std::string> offered;
  if (summary.top_k() > 0) offered = {"_top_values", "_top_indices"};
  if (summary.log_sum_exp()) offered.insert({"_log_sum_exp", "_maximum"});
  if (summary.entropy()) offered.insert("_entropy");
  return offered;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// 0: no class_count; nothing: a wrong one.
std::optional<std::uint32_t> ClassesOf(const ModelInferRequest::InferRequestedOutputTensor& output,
                                       const WireLimits& limits) {
  const auto it = output.parameters().find("classification");
  if (it == output.parameters().end()) return 0;
  const bool is_signed = it->second.parameter_choice_case() == inference::InferParameter::kInt64Param;
  if (!is_signed && it->second.parameter_choice_case() != inference::InferParameter::kUint64Param) return std::nullopt;
  const std::uint64_t count =
      is_signed ? static_cast<std::uint64_t>(it->second.int64_param()) : it->second.uint64_param();
  if (count < 1 || count > limits.max_top_k) return std::nullopt;
  return static_cast<std::uint32_t>(count);
}

bool TooLong(const std::string& text) { return text.size() > 4096; }

bool IsWithinBounds(const ModelInferRequest& request) {
  if (request.inputs_size() > 64 || request.outputs_size() > 64 || request.raw_input_contents_size() > 64) return false;
  auto parameters = request.parameters_size();
  for (const auto& input : request.inputs()) {
    parameters += input.parameters_size();
    if (TooLong(input.name()) || TooLong(input.datatype()) || input.shape_size() > 1000) return false;
  }
  for (const auto& output : request.outputs()) {
    parameters += output.parameters_size();
    if (TooLong(output.name())) return false;
  }
  for (const auto& [key, value] : request.parameters()) {
    if (TooLong(key) || TooLong(value.string_param())) return false;
  }
  if (TooLong(request.model_name()) || TooLong(request.model_version()) || TooLong(request.id())) return false;
  return parameters <= 1000 && FieldsOf(request) <= kMaxInferFields;
}

}  // namespace

OipVerdict JudgeInfer(const ModelInferRequest& request, const WireLimits& limits) {
  if (!IsWithinBounds(request)) return Bad();
  if (FindInferModel(request.model_name(), "") == nullptr) return Bad(absl::StatusCode::kNotFound);
  if (const std::string& version = request.model_version(); !version.empty() && version != "1") {
    const bool is_number = version.find_first_not_of("0123456789") == std::string::npos;
    return Bad(is_number ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument);
  }
  OipVerdict expected;
  v1::SoftmaxRequest common;
  if (!SetParameters(request, limits, &common, &expected)) return Bad();
  const std::set<std::string> offered = Offered(common.summary());
  common.set_operation(static_cast<v1::Operation>(FindInferModel(request.model_name(), "")->operation));
  const int count = request.inputs_size();
  if (count == 0) return Bad();
  if (request.raw_input_contents_size() != 0 && request.raw_input_contents_size() != count) return Bad();
  for (const auto& output : request.outputs()) {
    const std::optional<std::uint32_t> classes = ClassesOf(output, limits);
    if (!classes.has_value() || (*classes > 0 && common.summary().top_k() > 0)) return Bad();
  }
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) {
    const auto& input = request.inputs(i);
    if (input.name().empty() || input.name()[0] != 'X' || input.name().size() > 64) return Bad();
    for (const char* const end : {"_top_values", "_top_indices", "_log_sum_exp", "_maximum", "_entropy"}) {
      if (!offered.empty() && EndsWith(input.name(), end)) return Bad();
    }
    // Several that begin with the same name: which comes first is not said here.
    auto parameters = input.parameters();
    if (LeavesUnknown(&parameters)) return Bad(CodeOfParameters(parameters));
    if (DtypeOf(input.datatype()) == 0) return Bad();
    v1::SoftmaxRequest native = common;
    native.mutable_input()->set_dtype(static_cast<v1::DataType>(DtypeOf(input.datatype())));
    *native.mutable_input()->mutable_shape() = input.shape();
    if (!SetData(request, i, native.mutable_input())) return Bad();
    const std::string name = "Y" + input.name().substr(1);
    std::set<std::string> wanted = offered;
    if (request.outputs().empty() && offered.empty()) wanted = {""};
    std::uint32_t classes = 0;
    if (!request.outputs().empty()) {
      wanted.clear();
      for (const auto& output : request.outputs()) {
        const bool is_whole = output.name() == name;
        if (is_whole && ClassesOf(output, limits).value() > 0) {
          classes = ClassesOf(output, limits).value();
          wanted.insert("classes");
        } else if (is_whole) {
          wanted.insert("");
        }
        for (const std::string& end : offered) {
          if (output.name() == name + end) wanted.insert(end);
        }
      }
    }
    native.clear_summary();
    v1::SummaryRequest summary;
    if (wanted.count("_top_values") + wanted.count("_top_indices") > 0) summary.set_top_k(common.summary().top_k());
    if (classes > 0) summary.set_top_k(classes);
    summary.set_log_sum_exp(wanted.count("_log_sum_exp") + wanted.count("_maximum") > 0);
    summary.set_entropy(wanted.count("_entropy") > 0);
    if (summary.ByteSizeLong() > 0) {
      summary.set_full(wanted.count("") > 0);
      *native.mutable_summary() = summary;
    }
    Verdict verdict = Judge(native, limits);
    if (!verdict.field.empty()) return Bad();
    if (classes > 0) {
      verdict.spec.summary.top_k = static_cast<std::uint32_t>(
          std::max<std::int64_t>(1, std::min<std::int64_t>(verdict.spec.cols, verdict.spec.summary.top_k)));
      out +=
          static_cast<std::uint64_t>(verdict.spec.rows()) * verdict.spec.summary.top_k * MostClassBytes(verdict.spec);
    }
    expected.outputs.push_back(name);
    expected.endings.push_back(wanted);
    expected.specs.push_back(verdict.spec);
    expected.payloads.push_back(native.input().data());
    names.insert(input.name());
    in += verdict.spec.input_bytes();
    out += verdict.spec.output_bytes();
  }
  if (names.size() < static_cast<std::size_t>(count)) return Bad();
  if (in > limits.max_request_bytes || out > limits.max_response_bytes) return Bad();
  std::set<std::string> wanted;
  for (const auto& output : request.outputs()) {
    const auto is_of = [&](const std::string& name) {
      return output.name() == name ||
             (output.name().rfind(name, 0) == 0 && offered.count(output.name().substr(name.size())) > 0);
    };
    const auto it = std::find_if(expected.outputs.begin(), expected.outputs.end(), is_of);
    if (it == expected.outputs.end()) return Bad();
    if (!wanted.insert(output.name()).second) return Bad();
    auto parameters = output.parameters();
    if (parameters.erase("classification") > 0 && *it != output.name()) return Bad();
    if (LeavesUnknown(&parameters)) return Bad(CodeOfParameters(parameters));
  }
  for (std::size_t i = expected.outputs.size(); i-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (expected.endings[i].empty()) {
      expected.endings.erase(expected.endings.begin() + at);
      expected.outputs.erase(expected.outputs.begin() + at);
      expected.specs.erase(expected.specs.begin() + at);
      expected.payloads.erase(expected.payloads.begin() + at);
    }
  }
  return expected;
}

}  // namespace softmax::testing
