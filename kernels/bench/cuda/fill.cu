#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/bench/cuda/fill.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2048;

// The finalizer of splitmix64: every index has bits of its own.
__device__ std::uint64_t Mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Box and Muller's transform of 24 and 24 random bits.
__device__ float Normal(std::uint64_t bits) {
  const float radius = static_cast<float>((bits & 0xffffff) + 1) * 0x1p-24f;
  const float angle = static_cast<float>(bits >> 40) * 0x1p-24f;
  return sqrtf(-2.0f * logf(radius)) * cospif(2.0f * angle);
}

template <typename T>
__global__ void FillKernel(T* data, std::size_t count, std::uint64_t seed) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    data[i] = static_cast<T>(Normal(Mixed((i + 1) * 0x9e3779b97f4a7c15 + seed)));
  }
}

template <typename T>
void Fill(void* data, std::size_t bytes, std::uint64_t seed, cudaStream_t stream) {
  FillKernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<T*>(data), bytes / sizeof(T), seed);
}

// kVectors independent loads by each thread. With as many blocks as tiles each takes one; with fewer, they walk.
template <int kVectors>
__global__ void ReadKernel(const uint4* data, std::size_t count, unsigned* sink) {
  constexpr std::size_t kTile = std::size_t{kThreads} * kVectors;
  unsigned seen = 0;
  for (std::size_t tile = blockIdx.x; tile * kTile < count; tile += gridDim.x) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const std::size_t at = tile * kTile + i * kThreads + threadIdx.x;
      const uint4 vector = at < count ? data[at] : uint4{};
      seen |= vector.x | vector.y | vector.z | vector.w;
    }
  }
  // There is none, which the compilers do not know: they would leave the loads out.
  if (sink != nullptr) *sink = seen;
}

template <int kVectors>
void Read(const void* data, std::size_t bytes, std::size_t most_blocks, cudaStream_t stream) {
  const std::size_t count = bytes / sizeof(uint4);
  const std::size_t tiles = (count + kThreads * kVectors - 1) / (kThreads * kVectors);
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(tiles, 1, most_blocks));
  ReadKernel<kVectors><<<blocks, kThreads, 0, stream>>>(static_cast<const uint4*>(data), count, nullptr);
}

}  // namespace

cudaError_t LaunchFill(DataType dtype, void* data, std::size_t bytes, std::uint64_t seed, cudaStream_t stream) {
  switch (dtype) {
    case DataType::kFloat32:
      Fill<float>(data, bytes, seed, stream);
      break;
    case DataType::kFloat16:
      Fill<__half>(data, bytes, seed, stream);
      break;
    case DataType::kBFloat16:
      Fill<__nv_bfloat16>(data, bytes, seed, stream);
      break;
    case DataType::kFloat64:
      Fill<double>(data, bytes, seed, stream);
      break;
  }
  return cudaGetLastError();
}

cudaError_t LaunchRead(ReadForm form, const void* data, std::size_t bytes, cudaStream_t stream) {
  constexpr std::size_t kAnyNumber = 0x7fffffff;
  switch (form) {
    case ReadForm::kOneVector:
      Read<1>(data, bytes, kAnyNumber, stream);
      break;
    case ReadForm::kFourVectors:
      Read<4>(data, bytes, kAnyNumber, stream);
      break;
    case ReadForm::kPersistent:
      Read<4>(data, bytes, kBlocks, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace softmax::kernels::bench
