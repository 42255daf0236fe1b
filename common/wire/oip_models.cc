#include "common/wire/oip_models.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <string>

#include "common/wire/whole_message.h"

namespace softmax {
namespace {

using kernels::DataType;
using kernels::Operation;

constexpr std::array<InferModel, kInferModels> kModels = {{
    {"softmax", Operation::kSoftmax, DataType::kFloat32},
    {"softmax_fp16", Operation::kSoftmax, DataType::kFloat16},
    {"softmax_bf16", Operation::kSoftmax, DataType::kBFloat16},
    {"softmax_fp64", Operation::kSoftmax, DataType::kFloat64},
    {"log_softmax", Operation::kLogSoftmax, DataType::kFloat32},
    {"log_softmax_fp16", Operation::kLogSoftmax, DataType::kFloat16},
    {"log_softmax_bf16", Operation::kLogSoftmax, DataType::kBFloat16},
    {"log_softmax_fp64", Operation::kLogSoftmax, DataType::kFloat64},
}};

}  // namespace

std::span<const InferModel, kInferModels> InferModels() { return kModels; }

const InferModel* FindInferModel(std::string_view name, std::string_view version) {
  if (!version.empty() && version != "1") return nullptr;
  const auto* const it =
      std::find_if(kModels.begin(), kModels.end(), [name](const InferModel& model) { return name == model.name; });
  return it == kModels.end() ? nullptr : it;
}

absl::Status NoInferModel(std::string_view prefix, std::string_view name, std::string_view version) {
  const std::string field(prefix);
  if (FindInferModel(name, "") == nullptr) {
    return absl::NotFoundError(absl::StrCat(field, "name: ", Quoted(name),
                                            " is not known here; softmax and log_softmax are, and each with _fp16, "
                                            "_bf16 and _fp64"));
  }
  const bool is_number = version.find_first_not_of("0123456789") == std::string_view::npos;
  const std::string text = absl::StrCat(field, "version: is ", Quoted(version), "; must be empty or \"1\"");
  return is_number ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

const char* DatatypeName(kernels::DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "FP32";
    case DataType::kFloat16:
      return "FP16";
    case DataType::kBFloat16:
      return "BF16";
    case DataType::kFloat64:
      return "FP64";
  }
  return "";
}

}  // namespace softmax
