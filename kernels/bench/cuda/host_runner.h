#pragma once

#include <memory>
#include <string>

#include "kernels/bench/runner.h"

namespace softmax::kernels::bench {

// The same of tensors in the host's memory.
std::unique_ptr<Runner> MakeHostRunner(const RunSettings& settings, std::string* reason);

}  // namespace softmax::kernels::bench
