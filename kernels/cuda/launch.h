#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace softmax::kernels::cuda {

struct Grid {
  std::int64_t blocks;
  int threads;
  int dynamic_bytes = 0;
  int cluster_blocks = 1;
  bool cooperative = false;
  bool dependent = false;  // it may take its places before the launch before it has ended (blocks/ahead.cuh)
};

// Launches a kernel on the current device, as cudaLaunchKernelExC() does; `args` points to its arguments. It is the
// driver that is called, with the kernel's handle from a cache of the thread: the runtime looks a kernel up at every
// launch, in tables that are no longer in the cache of a core that moves payloads between two launches.
cudaError_t Launch(const void* kernel, const Grid& grid, void** args, cudaStream_t stream);

// Loads the kernels of LaunchGather on the current device.
cudaError_t LoadGatherKernels();

// A kernel (std::uint32_t* flag, std::uint32_t value) of one thread that stores the flag: for batches without elements.
const void* FlagKernelAddress();

}  // namespace softmax::kernels::cuda
