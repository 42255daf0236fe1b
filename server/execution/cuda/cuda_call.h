#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "server/execution/faults.h"

namespace softmax::server {

// The CUDA call `call`, or the error that a test wants of it. `faults` is null in every server that is not under test:
// one predictable branch a call.
template <typename Call>
cudaError_t MakeCall(FaultPlan* faults, const char* name, Call&& call) {
  if (faults != nullptr) [[unlikely]] {
    if (const int error = faults->NextCall(name); error != 0) return static_cast<cudaError_t>(error);
  }
  return std::forward<Call>(call)();
}

// A call that allocates, which a test may refuse by number, too.
template <typename Call>
cudaError_t MakeAllocation(FaultPlan* faults, const char* name, Call&& call) {
  if (faults != nullptr && faults->RefusesAllocation()) return cudaErrorMemoryAllocation;
  return MakeCall(faults, name, std::forward<Call>(call));
}

}  // namespace softmax::server
