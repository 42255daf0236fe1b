#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/small_rows/small.cuh"

// How a tile of dense rows comes to shared memory, as one stretch of vectors, and goes back.
namespace softmax::kernels::cuda {

// Copies `count` elements from a 16-byte boundary on to shared memory, for the whole block.
template <typename In>
__device__ __forceinline__ void LoadTile(const In* input, int count, In* tile) {
  constexpr int kVector = Element<In>::kVector;
  const int whole = count / kVector * kVector;
  for (int at = static_cast<int>(threadIdx.x) * kVector; at < whole; at += kMatrixThreads * kVector) {
    __pipeline_memcpy_async(tile + at, input + at, sizeof(uint4));
  }
  __pipeline_commit();
  const int last = whole + static_cast<int>(threadIdx.x);
  if (last < count) tile[last] = input[last];
  __pipeline_wait_prior(0);
  __syncthreads();
}

// Stores `count` elements of a tile from a 16-byte boundary on, for the whole block.
template <typename In>
__device__ __forceinline__ void StoreTile(const In* tile, int count, In* output) {
  constexpr int kVector = Element<In>::kVector;
  for (int at = static_cast<int>(threadIdx.x) * kVector; at < count; at += kMatrixThreads * kVector) {
    const uint4 y = *reinterpret_cast<const uint4*>(tile + at);
    if (at + kVector <= count) {
      *reinterpret_cast<uint4*>(output + at) = y;
    } else {
      StoreRange(output + at, y, 0, count - at);
    }
  }
}

// The same of numbers, as elements of the type that the launch names, which is not In. `first`: the tile's place in the
// output.
template <typename In>
__device__ __forceinline__ void StoreNumbers(const MatrixParams& params, const float* numbers, int count,
                                             std::int64_t first) {
  constexpr int kPiece = 4;
  ForOutputType<In, false>(params.output_type, [&](auto* type) {
    const auto output = static_cast<decltype(type)>(params.output) + first;
    for (int at = static_cast<int>(threadIdx.x) * kPiece; at < count; at += kMatrixThreads * kPiece) {
      const uint4 vector = *reinterpret_cast<const uint4*>(numbers + at);
      float x[kPiece];
      memcpy(x, &vector, sizeof(x));
      StorePiece<false>(output, at, 0, count, x);
    }
  });
}

// What a tile takes in shared memory.
template <typename In>
__device__ __forceinline__ int TileElements(int rows, int pitch) {
  constexpr int kVector = Element<In>::kVector;
  return (rows * pitch + kVector - 1) / kVector * kVector;
}
// Where the results of a tile are kept as numbers.
template <typename In>
__device__ __forceinline__ float* NumbersOf(In* tile, const MatrixParams& params) {
  const auto cols = static_cast<int>(params.cols);
  return reinterpret_cast<float*>(sizeof(In) == 4 ? tile : tile + TileElements<In>(params.rows_per_block, cols));
}

}  // namespace softmax::kernels::cuda
