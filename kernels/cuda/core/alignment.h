#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/core/work.h"

// How the rows of a segment lie to the boundaries of 16 bytes.
namespace softmax::kernels::cuda {

// Whether input and output rows miss the boundaries alike, counted in elements: pieces that begin on a boundary of the
// input, or a multiple of PieceElements() behind it, are then aligned in the output.
inline bool AreAlike(const Segment& s, int input_bytes, int output_bytes) {
  const auto elements = [](const void* p, int bytes) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p)) / bytes;
  };
  const std::int64_t piece = PieceElements(input_bytes, output_bytes);
  return (elements(s.input, input_bytes) - elements(s.output, output_bytes)) % piece == 0 &&
         (s.outer == 1 || (s.input_stride - s.output_stride) % piece == 0);
}

}  // namespace softmax::kernels::cuda
