#pragma once

#include "kernels/bench/options.h"

namespace softmax::kernels::bench {

// Measures all points and writes the results. Returns the program's exit code.
int RunBench(const Options& options);

}  // namespace softmax::kernels::bench
