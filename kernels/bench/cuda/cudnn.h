#pragma once

#include <string>

#include "kernels/bench/cuda/provider.h"

namespace softmax::kernels::bench {

inline constexpr char kCudnn[] = "cudnn";

// cudnnSoftmaxForward of the library at `path` (empty: where the loader finds it). Without one: the reason, and a
// provider that offers nothing.
Provider MakeCudnn(const std::string& path, std::string* reason);

}  // namespace softmax::kernels::bench
