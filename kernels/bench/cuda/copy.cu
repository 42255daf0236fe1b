#include <algorithm>

#include "kernels/bench/cuda/kernels.h"

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

cudaError_t LaunchCopy(CopyForm form, const void* input, void* output, std::size_t bytes, cudaStream_t stream) {
  constexpr std::size_t kAnyNumber = 0x7fffffff;
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

}  // namespace softmax::kernels::bench
