#include "common/wire/oip_models.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "common/wire/whole_message.h"

namespace softmax {
namespace {

using kernels::DataType;

constexpr std::pair<const char*, DataType> kEndings[] = {{"", DataType::kFloat32},
                                                         {"_fp16", DataType::kFloat16},
                                                         {"_bf16", DataType::kBFloat16},
                                                         {"_fp64", DataType::kFloat64}};
static_assert(kernels::kOperations.size() * std::size(kEndings) == kInferModels);

std::array<InferModel, kInferModels> MakeModels() {
  std::array<InferModel, kInferModels> models;
  auto next = models.begin();
  for (const kernels::OperationTraits& traits : kernels::kOperations) {
    for (const auto& [ending, type] : kEndings) {
      *next++ = {absl::StrCat(traits.name, ending), traits.operation, type};
    }
  }
  return models;
}

}  // namespace

std::span<const InferModel, kInferModels> InferModels() {
  static const auto& models = *new std::array<InferModel, kInferModels>(MakeModels());  // threads outlive statics
  return models;
}

std::string InferModelNames() {
  return absl::StrCat(kernels::OperationNames(" and "), ", and each with _fp16, _bf16 and _fp64");
}

const InferModel* FindInferModel(std::string_view name, std::string_view version) {
  if (!version.empty() && version != "1") return nullptr;
  const auto models = InferModels();
  const auto it =
      std::find_if(models.begin(), models.end(), [name](const InferModel& model) { return name == model.name; });
  return it == models.end() ? nullptr : &*it;
}

absl::Status NoInferModel(std::string_view prefix, std::string_view name, std::string_view version) {
  const std::string field(prefix);
  if (FindInferModel(name, "") == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(field, "name: ", Quoted(name), " is not known here; models are ", InferModelNames()));
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
