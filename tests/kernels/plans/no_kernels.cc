#include <algorithm>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/large_rows/wide.h"
#include "kernels/cuda/rows/link.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/rows/mixed.h"
#include "kernels/cuda/small_rows/share.h"
#include "kernels/cuda/small_rows/tile.h"
#include "kernels/cuda/strips/ring.h"
#include "tests/kernels/plans/room.h"

// The planners' files name the tables of kernels, which nvcc makes. Here they are empty: a plan is not launched.
namespace softmax::kernels::cuda {

#define SOFTMAX_NO_KERNELS(table, name) \
  const table& name() {                 \
    static const table none = {};       \
    return none;                        \
  }
#define SOFTMAX_NO_KERNELS_OF_THREE(table, name)    \
  SOFTMAX_NO_KERNELS(table, Float32##name##Kernels) \
  SOFTMAX_NO_KERNELS(table, Float16##name##Kernels) \
  SOFTMAX_NO_KERNELS(table, BFloat16##name##Kernels)
#define SOFTMAX_NO_KERNELS_OF_FOUR(table, name) \
  SOFTMAX_NO_KERNELS_OF_THREE(table, name)      \
  SOFTMAX_NO_KERNELS(table, Float64##name##Kernels)

SOFTMAX_NO_KERNELS_OF_FOUR(KernelTable, )
SOFTMAX_NO_KERNELS_OF_FOUR(BatchKernels, Batch)
SOFTMAX_NO_KERNELS_OF_FOUR(ColumnKernels, Column)
SOFTMAX_NO_KERNELS_OF_FOUR(LinkKernels, Link)
SOFTMAX_NO_KERNELS_OF_FOUR(MatrixKernels, Matrix)
SOFTMAX_NO_KERNELS_OF_FOUR(MixedKernels, Mixed)
SOFTMAX_NO_KERNELS_OF_FOUR(TileKernels, Tile)
SOFTMAX_NO_KERNELS_OF_THREE(ColumnLanesKernels, ColumnLanes)
SOFTMAX_NO_KERNELS_OF_THREE(ColumnStreamKernels, Stream)
SOFTMAX_NO_KERNELS_OF_THREE(ShareKernels, Share)
SOFTMAX_NO_KERNELS_OF_THREE(WideKernels, Wide)

#undef SOFTMAX_NO_KERNELS_OF_FOUR
#undef SOFTMAX_NO_KERNELS_OF_THREE
#undef SOFTMAX_NO_KERNELS

const void* ColumnRingKernelOf(DataType, ColumnRingForm, bool) { return nullptr; }

}  // namespace softmax::kernels::cuda

// The planner then takes as many clusters as the multiprocessors make.
cudaError_t cudaOccupancyMaxActiveClusters(int*, const void*, const cudaLaunchConfig_t*) {
  return cudaErrorInvalidValue;
}

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
