#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bench/check.h"
#include "kernels/bench/point.h"

namespace softmax::kernels::bench {

// One copy of a point's tensors. There are several, so that the caches do not serve them.
struct Slot {
  std::size_t index = 0;
  DataType dtype = DataType::kFloat32;
  DataType output_dtype = DataType::kFloat32;
  std::vector<Segment> segments;
  SummarySegment summary;        // of a point with top_k, which asks for nothing else
  std::size_t input_bytes = 0;   // without gaps
  std::size_t output_bytes = 0;  // 0 with top_k
};

// Enqueues one run over a slot. cudaErrorNotSupported: this form cannot run this shape.
using Launch = std::function<cudaError_t(const Slot& slot, cudaStream_t stream)>;

// Something that is measured. It may come in several forms, of which each point is given the fastest.
struct Provider {
  std::string name;
  std::vector<Launch> forms;
  std::function<bool(const Point& point)> offers;
  Strictness strictness = Strictness::kRough;
};

Provider MakeCopy();
// The kernels of this project. Throws if they cannot be loaded.
Provider MakeOurs();

}  // namespace softmax::kernels::bench
