#pragma once

#include <cstdint>
#include <string>

#include "kernels/types.h"

// The CPU kernels (Google Highway, dynamic dispatch). Plain functions on the caller's thread: no
// threads, no locks, no allocation (but see Summarize) above 256 KiB of stack, no errors (the caller has validated the
// segment). Semantics: kernels/types.h.
namespace softmax::kernels::cpu {

// Runs rows [row_begin, row_end) of the segment, row r = o * inner + i. Different rows may run on
// different threads at the same time. With inner > 1 neighbouring rows share cache lines: give each
// thread a multiple of 16 rows.
void Softmax(DataType input_type, DataType output_type, const Segment& segment, std::int64_t row_begin,
             std::int64_t row_end);

// The same of summaries (kernels/types.h); rows of another axis are copied, one at a time, to memory that it takes.
void Summarize(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t row_begin,
               std::int64_t row_end);

// The instruction set that Softmax uses on this machine, e.g. "AVX3_ZEN4" (Highway's name).
std::string TargetName();

}  // namespace softmax::kernels::cpu
