#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The one list of what can be computed of a row. Programs, protocols and kernels read it.
namespace softmax::kernels {

// Values equal the wire's (proto/softmax/v1/softmax.proto).
enum class Operation : std::uint8_t { kSoftmax = 1, kLogSoftmax = 2 };

// What the code asks of an operation, in place of which one it is.
struct OperationTraits {
  Operation operation;
  const char* name;   // in flags and texts, and of the Open Inference Protocol's models
  const char* alias;  // read in place of `name`
  // The results are logarithms, and masked ones -inf; otherwise they are probabilities, and masked ones 0.
  bool is_log;
};

// In the order of their numbers, from 1 on.
inline constexpr std::array kOperations = {
    OperationTraits{Operation::kSoftmax, "softmax", "softmax", false},
    OperationTraits{Operation::kLogSoftmax, "log_softmax", "log-softmax", true},
};

constexpr const OperationTraits& TraitsOf(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation) - 1];
}
static_assert([] {
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (static_cast<std::size_t>(kOperations[i].operation) != i + 1) return false;
  }
  return true;
}());

// Null: none has this name or alias.
constexpr const OperationTraits* FindOperation(std::string_view name) {
  for (const OperationTraits& traits : kOperations) {
    if (name == traits.name || name == traits.alias) return &traits;
  }
  return nullptr;
}

// "softmax or log_softmax", with `between` = " or ".
inline std::string OperationNames(std::string_view between) {
  std::string names;
  for (const OperationTraits& traits : kOperations) {
    if (!names.empty()) names += between;
    names += traits.name;
  }
  return names;
}

}  // namespace softmax::kernels
