#pragma once

#include "kernels/cuda/rows/matrix.h"

// Plans for rows of which many blocks take parts in turn.
namespace softmax::kernels::cuda {

// Vectors of shared memory that a slice of so many chunks takes.
int SliceVectors(int chunks, const MatrixPlan& plan);

// Plans kernels for very wide rows, or for rows of many chunks where there are no clusters. Leaves the room kNone where
// none takes them: without a workspace, or where the device holds too few blocks at a time.
void PlanWide(DataType type, const Device& device, MatrixPlan* plan);

}  // namespace softmax::kernels::cuda
