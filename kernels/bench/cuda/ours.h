#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/bench/cuda/memory.h"
#include "kernels/bench/point.h"
#include "kernels/softmax.h"

namespace softmax::kernels::bench {

// The only caller of kernels/softmax.h here. Keeps the memory that launches need besides the tensors: launches over
// different slots may be under way, or in one graph, at the same time.
class Ours {
 public:
  // Loads the kernels; throws.
  Ours();

  cudaError_t Launch(DataType dtype, DataType output_dtype, const std::vector<Segment>& segments, std::size_t slot,
                     cudaStream_t stream, Placement placement = Placement::kDevice);

  // Of few segments, as one is.
  cudaError_t Summarize(DataType dtype, DataType output_dtype, const SummarySegment& summary, std::size_t slot,
                        cudaStream_t stream);

 private:
  static constexpr std::size_t kWorkspaces = 8;  // more than streams that launch at the same time

  std::vector<std::unique_ptr<Memory>> scratch_;  // by slot
  Memory workspaces_{Memory::Where::kDevice};
  std::vector<std::unique_ptr<Memory>> summary_workspaces_;  // by slot
};

}  // namespace softmax::kernels::bench
