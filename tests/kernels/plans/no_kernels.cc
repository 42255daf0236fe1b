#include <algorithm>

#include "kernels/cuda/registry.h"
#include "tests/kernels/plans/room.h"

// The planners ask for the kernels that nvcc makes. Here there are none: a plan is not launched.
namespace softmax::kernels::cuda {

const void* KernelOf(DataType, Room, int, int) { return nullptr; }

}  // namespace softmax::kernels::cuda

// As many as the model's shared memory and 64 registers a thread leave room for.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t dynamic_bytes) {
  constexpr int kTableBytes = 10 * 1024;
  constexpr int kThreads = 1024;
  const int room = softmax::kernels::testing::SharedBytesOfModel() + kTableBytes;
  *blocks = std::min(kThreads / threads, room / (static_cast<int>(dynamic_bytes) + kTableBytes));
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
