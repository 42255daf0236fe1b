#include <algorithm>

#include "kernels/bench/cuda/copy.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kThreads = 256;

// The bytes behind the last whole vector.
__device__ void CopyTail(const uint4* input, uint4* output, std::size_t vectors, std::size_t bytes) {
  const std::size_t at = vectors * sizeof(uint4) + threadIdx.x;
  if (blockIdx.x == 0 && at < bytes) {
    reinterpret_cast<unsigned char*>(output)[at] = reinterpret_cast<const unsigned char*>(input)[at];
  }
}

// kVectors independent loads by each thread, then as many stores.
template <int kVectors, bool kStreaming>
__device__ void CopyTile(const uint4* input, uint4* output, std::size_t vectors, std::size_t tile) {
  const std::size_t first = tile * kThreads * kVectors + threadIdx.x;
  uint4 held[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::size_t at = first + i * kThreads;
    if (at < vectors) held[i] = kStreaming ? __ldcs(input + at) : __ldg(input + at);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::size_t at = first + i * kThreads;
    if (at >= vectors) continue;
    if (kStreaming) {
      __stcs(output + at, held[i]);
    } else {
      output[at] = held[i];
    }
  }
}

// The same where kRead vectors are read for kWritten: a tile of each thread has four of the more numerous ones.
template <int kRead, int kWritten, bool kStreaming>
__device__ void CopyUnevenTile(const uint4* input, uint4* output, std::size_t tile) {
  constexpr int kInputs = kRead < kWritten ? 4 * kRead / kWritten : 4;
  constexpr int kOutputs = kRead < kWritten ? 4 : 4 * kWritten / kRead;
  uint4 held[kInputs];
#pragma unroll
  for (int i = 0; i < kInputs; ++i) {
    const uint4* const from = input + (tile * kInputs + i) * kThreads + threadIdx.x;
    held[i] = kStreaming ? __ldcs(from) : __ldg(from);
  }
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    uint4 value = held[i % kInputs];
#pragma unroll
    for (int j = i + kOutputs; j < kInputs; j += kOutputs) value.x ^= held[j].x;  // so that all are read
    uint4* const to = output + (tile * kOutputs + i) * kThreads + threadIdx.x;
    if (kStreaming) {
      __stcs(to, value);
    } else {
      *to = value;
    }
  }
}

// What whole tiles do not hold, less than one of them, is left out.
template <int kRead, int kWritten, bool kStreaming>
__global__ void CopyUnevenKernel(const uint4* input, uint4* output, std::size_t tiles) {
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    CopyUnevenTile<kRead, kWritten, kStreaming>(input, output, tile);
  }
}

// With as many blocks as tiles each takes one; with fewer, they walk.
template <int kVectors, bool kStreaming>
__global__ void CopyKernel(const uint4* input, uint4* output, std::size_t bytes) {
  const std::size_t vectors = bytes / sizeof(uint4);
  for (std::size_t tile = blockIdx.x; tile * kThreads * kVectors < vectors; tile += gridDim.x) {
    CopyTile<kVectors, kStreaming>(input, output, vectors, tile);
  }
  CopyTail(input, output, vectors, bytes);
}

template <int kVectors, bool kStreaming>
void Copy(const void* input, void* output, std::size_t bytes, std::size_t most_blocks, cudaStream_t stream) {
  const std::size_t tile_bytes = sizeof(uint4) * kThreads * kVectors;
  const std::size_t tiles = std::max<std::size_t>(1, (bytes + tile_bytes - 1) / tile_bytes);
  CopyKernel<kVectors, kStreaming><<<static_cast<unsigned>(std::min(tiles, most_blocks)), kThreads, 0, stream>>>(
      static_cast<const uint4*>(input), static_cast<uint4*>(output), bytes);
}

// Blocks that stay: as many as fit on the device at a time.
std::size_t ResidentBlocks() {
  static const std::size_t blocks = [] {
    int device = 0;
    int multiprocessors = 0;
    int per_multiprocessor = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, CopyKernel<4, true>, kThreads, 0) !=
            cudaSuccess) {
      return std::size_t{1};
    }
    return static_cast<std::size_t>(multiprocessors) * static_cast<std::size_t>(per_multiprocessor);
  }();
  return blocks;
}

}  // namespace

namespace {

constexpr std::size_t kAnyNumber = 0x7fffffff;

cudaError_t CopyEven(CopyForm form, const void* input, void* output, std::size_t bytes, cudaStream_t stream) {
  switch (form) {
    case CopyForm::kRuntime:
      return cudaMemcpyAsync(output, input, bytes, cudaMemcpyDeviceToDevice, stream);
    case CopyForm::kOneVector:
      Copy<1, false>(input, output, bytes, kAnyNumber, stream);
      break;
    case CopyForm::kFourVectors:
      Copy<4, false>(input, output, bytes, kAnyNumber, stream);
      break;
    case CopyForm::kFourVectorsStreaming:
      Copy<4, true>(input, output, bytes, kAnyNumber, stream);
      break;
    case CopyForm::kPersistent:
      Copy<4, true>(input, output, bytes, ResidentBlocks(), stream);
      break;
  }
  return cudaGetLastError();
}

template <int kRead, int kWritten>
cudaError_t CopyUneven(CopyForm form, const void* input, void* output, std::size_t larger_bytes, cudaStream_t stream) {
  if (form != CopyForm::kFourVectors && form != CopyForm::kFourVectorsStreaming && form != CopyForm::kPersistent) {
    return cudaErrorNotSupported;
  }
  const std::size_t tiles = larger_bytes / (4 * kThreads * sizeof(uint4));
  const std::size_t most_blocks = form == CopyForm::kPersistent ? ResidentBlocks() : kAnyNumber;
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(tiles, 1, most_blocks));
  const auto* const from = static_cast<const uint4*>(input);
  auto* const to = static_cast<uint4*>(output);
  if (form == CopyForm::kFourVectors) {
    CopyUnevenKernel<kRead, kWritten, false><<<blocks, kThreads, 0, stream>>>(from, to, tiles);
  } else {
    CopyUnevenKernel<kRead, kWritten, true><<<blocks, kThreads, 0, stream>>>(from, to, tiles);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchCopy(CopyForm form, const void* input, std::size_t input_bytes, void* output,
                       std::size_t output_bytes, cudaStream_t stream) {
  if (input_bytes == output_bytes) return CopyEven(form, input, output, input_bytes, stream);
  const std::size_t larger = std::max(input_bytes, output_bytes);
  if (output_bytes == 2 * input_bytes) return CopyUneven<1, 2>(form, input, output, larger, stream);
  if (output_bytes == 4 * input_bytes) return CopyUneven<1, 4>(form, input, output, larger, stream);
  if (input_bytes == 2 * output_bytes) return CopyUneven<2, 1>(form, input, output, larger, stream);
  if (input_bytes == 4 * output_bytes) return CopyUneven<4, 1>(form, input, output, larger, stream);
  return cudaErrorNotSupported;
}

}  // namespace softmax::kernels::bench
