#pragma once

#include <memory>

#include "kernels/bench/runner.h"

namespace softmax::kernels::bench {

std::unique_ptr<Runner> MakeCpuRunner(const RunSettings& settings);

}  // namespace softmax::kernels::bench
