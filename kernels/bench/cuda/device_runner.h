#pragma once

#include <memory>
#include <string>

#include "kernels/bench/runner.h"

namespace softmax::kernels::bench {

// On the GPU, tensors in its memory. Null, and the reason, where there is none or the program was built without CUDA.
std::unique_ptr<Runner> MakeDeviceRunner(const RunSettings& settings, std::string* reason);

}  // namespace softmax::kernels::bench
