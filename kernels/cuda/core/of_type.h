#pragma once

#include "kernels/softmax.h"

namespace softmax::kernels::cuda {

// A family's table of kernels for elements of `type`, of those that it has for each.
template <typename Table>
Table OfType(DataType type, Table (&float32)(), Table (&float16)(), Table (&bfloat16)(), Table (&float64)()) {
  switch (type) {
    case DataType::kFloat16:
      return float16();
    case DataType::kBFloat16:
      return bfloat16();
    case DataType::kFloat64:
      return float64();
    case DataType::kFloat32:
      break;
  }
  return float32();
}

// The table of doubles of a family that has none.
template <typename Table>
const Table& NoKernels() {
  static const Table none = {};
  return none;
}

}  // namespace softmax::kernels::cuda
