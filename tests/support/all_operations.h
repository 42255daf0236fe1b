#pragma once

#include <array>
#include <cstddef>

#include "kernels/operations.h"

namespace softmax::testing {

// Every operation there is, as the enumeration of the kernels, the client or the contract.
template <typename Operation = kernels::Operation>
constexpr std::array<Operation, kernels::kOperations.size()> AllOperations() {
  std::array<Operation, kernels::kOperations.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Operation>(kernels::kOperations[i].operation);
  return all;
}

}  // namespace softmax::testing
