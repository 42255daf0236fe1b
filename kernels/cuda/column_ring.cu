#include "kernels/cuda/column_ring.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
const void* KernelOf(bool log) {
  return log ? reinterpret_cast<const void*>(&ColumnRingKernel<In, true>)
             : reinterpret_cast<const void*>(&ColumnRingKernel<In, false>);
}

}  // namespace

const void* ColumnRingKernelOf(DataType type, bool log) {
  switch (type) {
    case DataType::kFloat32:
      return KernelOf<float>(log);
    case DataType::kFloat16:
      return KernelOf<__half>(log);
    case DataType::kBFloat16:
      return KernelOf<__nv_bfloat16>(log);
    case DataType::kFloat64:
      break;
  }
  return nullptr;
}

}  // namespace softmax::kernels::cuda
