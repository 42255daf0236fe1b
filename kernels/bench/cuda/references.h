#pragma once

#include <vector>

#include "kernels/bench/cuda/provider.h"

namespace softmax::kernels::bench {

// Other ways to do it, see kernels/bench/cuda/reference/.
std::vector<Provider> MakeReferences();

}  // namespace softmax::kernels::bench
