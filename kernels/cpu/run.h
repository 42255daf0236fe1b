#pragma once

#include <cstdint>

#include "kernels/types.h"

// The parts that Softmax() chooses from, one source file per input type so that they build side by
// side. All but RunAnyScale take ordinary scales only (factor.h).
namespace softmax::kernels::cpu {

void RunFloat32(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end);
void RunFloat16(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end);
void RunBFloat16(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end);
void RunFloat64(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end);

void SummarizeFloat32(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end);
void SummarizeFloat16(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end);
void SummarizeBFloat16(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end);
void SummarizeFloat64(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end);

// Element by element in long double: slow, for scales that no model uses.
void RunAnyScale(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                 std::int64_t end);
void SummarizeAnyScale(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                       std::int64_t end);

}  // namespace softmax::kernels::cpu
