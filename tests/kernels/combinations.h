#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <tuple>
#include <vector>

#include "kernels/types.h"

// What tests of kernels go through in all combinations.
namespace softmax::kernels::testing {

inline constexpr Operation kBothOperations[] = {Operation::kSoftmax, Operation::kLogSoftmax};
using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

// Every combination of elements of the lists, in the order of loops within loops: the last list's element changes
// first.
template <typename... Lists>
auto Product(const Lists&... lists) {
  std::vector<std::tuple<std::ranges::range_value_t<const Lists&>...>> all;
  const auto choose = [&](const auto& self, const auto&... chosen) -> void {
    if constexpr (sizeof...(chosen) == sizeof...(Lists)) {
      all.emplace_back(chosen...);
    } else {
      for (const auto& next : std::get<sizeof...(chosen)>(std::tie(lists...))) self(self, chosen..., next);
    }
  };
  choose(choose);
  return all;
}

}  // namespace softmax::kernels::testing
