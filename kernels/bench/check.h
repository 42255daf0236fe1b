#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "kernels/bench/point.h"

namespace softmax::kernels::bench {

enum class Strictness {
  kBounds,  // the error bounds of kernels/reference.h
  kRough,   // what any softmax should reach that may round what it stores between its steps
};

// Copies `height` stretches of `width` bytes, `pitch` bytes from one to the next, from where a segment lies to a dense
// place in the host's memory.
using Fetch =
    std::function<void(void* target, const void* source, std::size_t pitch, std::size_t width, std::size_t height)>;
void FetchFromHost(void* target, const void* source, std::size_t pitch, std::size_t width, std::size_t height);

// Compares rows at the beginning, in the middle and at the end of a finished segment with the reference; more of them
// when they are short. Empty, or what is wrong.
std::string Check(DataType dtype, DataType output_dtype, const Segment& segment, Strictness strictness,
                  const Fetch& fetch);

// The same of a summary of contiguous rows: its first, middle and last row.
std::string CheckSummary(DataType dtype, DataType output_dtype, const SummarySegment& summary, const Fetch& fetch);

}  // namespace softmax::kernels::bench
