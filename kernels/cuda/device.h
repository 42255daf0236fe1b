#pragma once

#include <cuda_runtime_api.h>

namespace softmax::kernels::cuda {

// What a plan has to know of the device. With SOFTMAX_NO_CLUSTERS in the environment, for tests, it has no clusters.
struct Device {
  int multiprocessors = 0;
  int shared_bytes = 0;  // dynamic shared memory a block may ask for
  bool clusters = false;
  int cluster_blocks = 1;  // the largest cluster; beyond kMaxClusterBlocks only where a kernel allows it
  // Whether each multiprocessor's share of the memory's rate is such that more bytes have to be on their way, and more
  // blocks' arithmetic beside each other: that of an H200 (37 GB/s by its clock), not that of an H100 (25).
  bool fast_memory = false;
};

// The current device's. Each device is asked once per process; safe from any thread.
cudaError_t CurrentDevice(Device* device);

}  // namespace softmax::kernels::cuda
