#pragma once

#include "kernels/cuda/columns/columns.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/registry.h"

// How one segment over another axis is run: a thread for each unit of few columns, or several (columns/columns.h).
namespace softmax::kernels::cuda {

struct ColumnPlan {
  bool possible = false;
  bool mixed = false;  // the results are of another type
  bool wide = false;   // units are several elements
  int few = -1;        // which of kFewColumns; -1: more columns
  std::int64_t blocks = 0;
  int threads = kBlockThreads;
  int dynamic_bytes = 0;
  ColumnParams params = {};

  Room room() const { return few >= 0 ? Room::kColumnFew : Room::kColumns; }
  int size() const { return few >= 0 ? few : params.chunks > 1 ? 1 : 0; }
  int form() const { return FormOf(!wide, params.segment.log != 0, mixed); }
};

ColumnPlan PlanColumns(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                       const Device& device);

// Lets the blocks of a plan ask for their input before their turn, as PlanAhead() of plan/rows.h does.
void PlanAhead(DataType type, ColumnPlan* plan);

}  // namespace softmax::kernels::cuda
