#pragma once

#include "server/execution/executor.h"

namespace softmax::server {

// What a look for CUDA devices found. No device is not an error (a machine without a driver is one, too).
struct CudaProbe {
  std::vector<int> devices;
  std::string explanation;  // "2 devices: NVIDIA H100 ...", or why there is none
};
CudaProbe ProbeCuda(FaultPlan* faults = nullptr);

absl::StatusOr<std::unique_ptr<Executor>> CreateCudaExecutor(const ExecutorOptions& options);

}  // namespace softmax::server
