#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace softmax::kernels::bench {

// Fills the memory with normal values of the type, whole elements only.
cudaError_t LaunchFill(DataType dtype, void* data, std::size_t bytes, std::uint64_t seed, cudaStream_t stream);

// Reads all whole 16 bytes of the memory: the ceiling of whoever writes next to nothing, and a way to leave nothing
// else in the L2 cache. Which form is the fastest depends on the size.
enum class ReadForm { kOneVector, kFourVectors, kPersistent };
inline constexpr ReadForm kReadForms[] = {ReadForm::kOneVector, ReadForm::kFourVectors, ReadForm::kPersistent};
cudaError_t LaunchRead(ReadForm form, const void* data, std::size_t bytes, cudaStream_t stream);

}  // namespace softmax::kernels::bench
