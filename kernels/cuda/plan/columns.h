#pragma once

#include "kernels/cuda/columns/columns.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/registry.h"

// How one segment over another axis is run: a thread for each unit of few columns, or strips, as columns/columns.h
// says.
namespace softmax::kernels::cuda {

struct ColumnPlan {
  bool possible = false;
  bool mixed = false;    // the results are of another type
  bool vectors = false;  // units are 16-byte vectors
  ColumnMode mode = ColumnMode::kSmall;
  int few = -1;  // which of kFewColumns, if any: such plans have no other parameters than segment, scales and strips
  std::int64_t blocks = 0;
  int threads = kBlockThreads;
  int cluster_blocks = 1;
  int dynamic_bytes = 0;
  ColumnParams params;

  Room room() const { return few >= 0 ? Room::kColumnFew : Room::kColumns; }
  int size() const { return few >= 0 ? few : static_cast<int>(mode); }
  int form() const { return FormOf(!vectors, params.segment.log != 0, mixed); }
};

ColumnPlan PlanColumns(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                       const Device& device);

// Lets the blocks of a plan ask for their input before their turn, as PlanAhead() of plan/rows.h does.
void PlanAhead(DataType type, ColumnPlan* plan);

}  // namespace softmax::kernels::cuda
