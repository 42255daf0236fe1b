#include "kernels/bench/cuda/reference/common.cuh"
#include "kernels/bench/cuda/reference/warp_rows.h"

namespace softmax::kernels::bench {
namespace {

// Each warp takes kRows neighbouring rows at once; a lane holds up to kPacks packs of each.
template <typename T, int kPackSize, int kPacks, int kRows>
__global__ void WarpRowsKernel(const T* input, T* output, std::int64_t rows, int cols) {
  using P = Pack<T, kPackSize>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const std::int64_t first_row = warp * kRows;
  const int packs = cols / kPackSize;
  constexpr int kValues = kPacks * kPackSize;
  float x[kRows][kValues];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const P* row = reinterpret_cast<const P*>(input + (first_row + r) * cols);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const bool inside = first_row + r < rows && lane + p * 32 < packs;
      P pack;
      if (inside) pack = row[lane + p * 32];
#pragma unroll
      for (int e = 0; e < kPackSize; ++e) {
        x[r][p * kPackSize + e] = inside ? ToFloat(pack.elements[e]) : -INFINITY;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float max = -INFINITY;
#pragma unroll
    for (int i = 0; i < kValues; ++i) max = fmaxf(max, x[r][i]);
    max = ReduceWarp<Max>(max);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      x[r][i] = expf(x[r][i] - max);
      sum += x[r][i];
    }
    sum = ReduceWarp<Sum>(sum);
#pragma unroll
    for (int i = 0; i < kValues; ++i) x[r][i] /= sum;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    P* row = reinterpret_cast<P*>(output + (first_row + r) * cols);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (first_row + r >= rows || lane + p * 32 >= packs) continue;
      P pack;
#pragma unroll
      for (int e = 0; e < kPackSize; ++e) pack.elements[e] = FromFloat<T>(x[r][p * kPackSize + e]);
      row[lane + p * 32] = pack;
    }
  }
}

template <typename T, int kPackSize, int kRows>
cudaError_t Run(const Matrix& matrix, int rows_per_block, cudaStream_t stream) {
  constexpr int kFew = 8;  // values a lane holds of one row, at most
  constexpr int kMany = 32;
  if (matrix.cols % kPackSize != 0 || matrix.cols > kMany * 32 || !IsAligned(matrix, alignof(Pack<T, kPackSize>))) {
    return cudaErrorNotSupported;
  }
  const int threads = rows_per_block / kRows * 32;
  const unsigned blocks = DivideUp(matrix.rows, rows_per_block);
  void (*kernel)(const T*, T*, std::int64_t, int) = WarpRowsKernel<T, kPackSize, kMany / kPackSize, kRows>;
  if (matrix.cols <= kFew * 32) kernel = WarpRowsKernel<T, kPackSize, kFew / kPackSize, kRows>;
  kernel<<<blocks, threads, 0, stream>>>(static_cast<const T*>(matrix.input), static_cast<T*>(matrix.output),
                                         matrix.rows, static_cast<int>(matrix.cols));
  return cudaGetLastError();
}

struct Variant {
  int rows_per_block;
  int pack;
  int rows_per_access;
};

template <typename T, int kPackSize>
cudaError_t RunRows(const Variant& variant, const Matrix& matrix, cudaStream_t stream) {
  return variant.rows_per_access == 2 ? Run<T, kPackSize, 2>(matrix, variant.rows_per_block, stream)
                                      : Run<T, kPackSize, 1>(matrix, variant.rows_per_block, stream);
}

cudaError_t RunVariant(const Variant& variant, DataType dtype, const Matrix& matrix, cudaStream_t stream) {
  return ForType(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    switch (variant.pack) {
      case 1:
        return RunRows<T, 1>(variant, matrix, stream);
      case 2:
        return RunRows<T, 2>(variant, matrix, stream);
      case 4:
        return RunRows<T, 4>(variant, matrix, stream);
      default:
        return RunRows<T, 8>(variant, matrix, stream);
    }
  });
}

}  // namespace

std::vector<ReferenceKernel> RowsPerBlockVariants() {
  std::vector<ReferenceKernel> variants;
  for (const int rows_per_block : {2, 4, 8}) {
    for (const int pack : {1, 2, 4, 8}) {
      for (const int rows_per_access : {1, 2}) {
        const Variant variant{rows_per_block, pack, rows_per_access};
        variants.push_back([variant](DataType dtype, const Matrix& matrix, cudaStream_t stream) {
          return RunVariant(variant, dtype, matrix, stream);
        });
      }
    }
  }
  return variants;
}

cudaError_t LaunchWarp(DataType dtype, const Matrix& matrix, cudaStream_t stream) {
  const int pack = matrix.cols % 2 == 0 ? 2 : 1;
  return RunVariant({4, pack, 1}, dtype, matrix, stream);
}

}  // namespace softmax::kernels::bench
