#pragma once

#include "kernels/cuda/rows/matrix.h"

// Plans for rows of which many blocks take parts in turn.
namespace softmax::kernels::cuda {

// Whether a plan for very wide rows means rings, in its `slots`; 0: parts that blocks take in turn.
constexpr int kRingSlots = 1;

// Vectors of shared memory that a slice of so many chunks takes.
int SliceVectors(int chunks, const MatrixPlan& plan);

// Plans kernels for very wide rows, or for rows of many chunks where there are no clusters. Leaves the kind kNone where
// none takes them: without a workspace, or where the device holds too few blocks at a time.
void PlanWide(DataType type, const Device& device, MatrixPlan* plan);

// The kernel of a plan of kind kWide.
const void* WideKernelOf(DataType type, const MatrixPlan& plan);

}  // namespace softmax::kernels::cuda
