#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "kernels/operations.h"
#include "kernels/types.h"

// The names that the Open Inference Protocol has for our operations and types.
namespace softmax {

// A name under which the service is called. Every one takes all four types; `datatype` is what its metadata says, from
// which some clients take the type that they send.
struct InferModel {
  std::string name;
  kernels::Operation operation;
  kernels::DataType datatype;
};

constexpr std::size_t kInferModels = kernels::kOperations.size() * 4;
std::span<const InferModel, kInferModels> InferModels();
// "softmax and log_softmax, and each with _fp16, _bf16 and _fp64".
std::string InferModelNames();
// Null: there is none. `version` is "" or "1".
const InferModel* FindInferModel(std::string_view name, std::string_view version);
// Why there is none: NOT_FOUND, or INVALID_ARGUMENT for a version that is no number. `prefix`: of the fields' names,
// which are its "name" and "version".
absl::Status NoInferModel(std::string_view prefix, std::string_view name, std::string_view version);
constexpr std::size_t IndexOf(const InferModel& model, std::span<const InferModel, kInferModels> models) {
  return static_cast<std::size_t>(&model - models.data());
}
// "FP32"; the protocol's name for a type.
const char* DatatypeName(kernels::DataType type);

}  // namespace softmax
