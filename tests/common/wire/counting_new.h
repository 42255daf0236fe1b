#pragma once

#include <cstddef>

namespace softmax::testing {

// What operator new has given out in this program so far. Linking counting_new.cc replaces it.
struct HeapUse {
  std::size_t allocations = 0;
  std::size_t bytes = 0;
};
HeapUse HeapUseSoFar();

}  // namespace softmax::testing
