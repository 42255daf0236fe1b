#pragma once

#include <cuda_runtime_api.h>

namespace softmax::kernels::cuda {

// Loads the kernels of LaunchGather on the current device.
cudaError_t LoadGatherKernels();

}  // namespace softmax::kernels::cuda
