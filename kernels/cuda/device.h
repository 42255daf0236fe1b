#pragma once

#include <cuda_runtime_api.h>

namespace softmax::kernels::cuda {

// What a plan has to know of the device. With SOFTMAX_NO_CLUSTERS in the environment, for tests, it has no clusters, as
// before sm_90.
struct Device {
  int multiprocessors = 0;
  int shared_bytes = 0;  // dynamic shared memory a block may ask for
  bool clusters = false;
  int cluster_blocks = 1;  // the largest cluster; beyond kMaxClusterBlocks only where a kernel allows it
};

// The current device's. Each device is asked once per process; safe from any thread.
cudaError_t CurrentDevice(Device* device);

}  // namespace softmax::kernels::cuda
