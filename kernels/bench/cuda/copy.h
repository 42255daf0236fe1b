#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace softmax::kernels::bench {

// Copies on the device. Which form is the fastest depends on the size; the fastest is the ceiling.
enum class CopyForm { kRuntime, kOneVector, kFourVectors, kFourVectorsStreaming, kPersistent };
inline constexpr CopyForm kCopyForms[] = {CopyForm::kRuntime, CopyForm::kOneVector, CopyForm::kFourVectors,
                                          CopyForm::kFourVectorsStreaming, CopyForm::kPersistent};
// Both pointers on a 16-byte boundary. Where the output is a power of two larger or smaller, as many bytes are read and
// written, by kernels: kRuntime is then cudaErrorNotSupported.
cudaError_t LaunchCopy(CopyForm form, const void* input, std::size_t input_bytes, void* output,
                       std::size_t output_bytes, cudaStream_t stream);

}  // namespace softmax::kernels::bench
