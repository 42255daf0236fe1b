#include "kernels/cuda/strips/ring.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In, bool kWide, bool kWords>
const void* KernelOf(bool log) {
  return log ? reinterpret_cast<const void*>(&ColumnRingKernel<In, kWide, kWords, true>)
             : reinterpret_cast<const void*>(&ColumnRingKernel<In, kWide, kWords, false>);
}
template <typename In>
const void* KernelOf(ColumnRingForm form, bool log) {
  if (form.wide) return form.words ? KernelOf<In, true, true>(log) : KernelOf<In, true, false>(log);
  return form.words ? KernelOf<In, false, true>(log) : KernelOf<In, false, false>(log);
}

}  // namespace

const void* ColumnRingKernelOf(DataType type, ColumnRingForm form, bool log) {
  switch (type) {
    case DataType::kFloat32:
      return KernelOf<float>(form, log);
    case DataType::kFloat16:
      return KernelOf<__half>(form, log);
    case DataType::kBFloat16:
      return KernelOf<__nv_bfloat16>(form, log);
    case DataType::kFloat64:
      break;
  }
  return nullptr;
}

}  // namespace softmax::kernels::cuda
