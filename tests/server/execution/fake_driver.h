#pragma once

#include <cstddef>

namespace softmax::testing::fake_cuda {

// What the fake driver has given out: allocations, their mappings and addresses.
std::size_t DriverAllocations();

}  // namespace softmax::testing::fake_cuda
