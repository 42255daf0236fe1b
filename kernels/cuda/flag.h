#pragma once

#include <cstdint>

namespace softmax::kernels::cuda {

// A kernel (std::uint32_t* flag, std::uint32_t value) of one thread that stores the flag: for batches without elements.
const void* FlagKernelAddress();

}  // namespace softmax::kernels::cuda
