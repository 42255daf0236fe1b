#pragma once

#include <cfloat>

#include "kernels/cuda/small_rows/tiny.cuh"

// Dense rows of so few columns that a thread takes several of them at once, as the vectors that they share.
namespace softmax::kernels::cuda {

// Rows of at most kNarrowColumns columns, so many that they are whole vectors: a thread has them all in registers.
template <typename In, int kColumns, bool kLog>
class NarrowRows {
 public:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kRows = BoundaryStep(kColumns, sizeof(In));
  static constexpr int kVectors = kRows * kColumns / kVector;

  // Whether Run() has the form that results take with this scale.
  __device__ __forceinline__ static bool Suits(const Scale<float>& scale) {
    return !kLog || sizeof(In) != 2 || scale.plain != 0;
  }

  // Replaces the rows by their results. False: a maximum is far out or no number, and Redo() is needed.
  __device__ __forceinline__ static bool Run(uint4 (&v)[kVectors], const Scale<float>& scale) {
    // Vectors are closed when their last row is done, as all elements at once take twice the registers; of log-softmax
    // they are also opened when their first row comes. (With softmax that spilled.)
    float x[kVectors][kVector];
    bool usual = true;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        if ((kLog ? j * kVector / kColumns : 0) == r) Unpack<In>(v[j], x[j]);
      }
      float row[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) row[c] = x[(r * kColumns + c) / kVector][(r * kColumns + c) % kVector];
      const bool row_usual = kLog ? LogSoftmax(row, scale) : Softmax(row, scale);
      usual = usual && row_usual;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) x[(r * kColumns + c) / kVector][(r * kColumns + c) % kVector] = row[c];
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        if (((j + 1) * kVector - 1) / kColumns == r) v[j] = Pack<In>(x[j]);
      }
    }
    return usual;
  }

  // The same for rows in memory, `count` elements in all, whatever they are.
  __device__ __forceinline__ static void Redo(In* rows, int count, const Scale<float>& scale) {
#pragma unroll 1
    for (int at = 0; at < count; at += kColumns) {
      Row::Run(rows + at, rows + at, kColumns, kColumns, false, false, scale);
    }
  }

 private:
  using Row = TinyRow<In, kColumns, kLog>;

  // These do as TinyRow does, without what only maxima far out need.
  __device__ __forceinline__ static bool Softmax(float (&x)[kColumns], const Scale<float>& scale) {
    if constexpr (kColumns == 1 && sizeof(In) == 2) {
      x[0] = fabsf(x[0]) < Infinity<float>() ? 1.0f : NAN;  // what rounding makes of it
      return true;
    }
    const float max = Maximum(x);
    const float shift = max * scale.fast;
    const float correction = ShiftCorrection(max, shift, scale);
    const double sum = Row::Exponentials(
        x, [&](float y) { return scale.PlainExp(y, shift); }, x);
    const float factor = PlainQuotient(correction, static_cast<float>(sum * correction));
#pragma unroll
    for (int c = 0; c < kColumns; ++c) x[c] *= factor;
    return fabsf(shift) <= kMostShift;
  }
  __device__ __forceinline__ static bool LogSoftmax(float (&x)[kColumns], const Scale<float>& scale) {
    if constexpr (kColumns == 1) {
      const bool finite = fabsf(x[0]) < Infinity<float>();
      const float y = sizeof(In) == 2 ? 0.0f : LogResult(x[0], scale, x[0] * scale.pre, 0.0f, 0.0f);
      x[0] = finite ? y : NAN;
      return true;
    }
    const float max = Maximum(x);
    const RowStats<float> stats = Row::template LogStats<true>(x, max, kColumns, scale);
    float log_lo;
    const float log = LogTwo(stats.sum, stats.low, &log_lo);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      x[c] = sizeof(In) == 2 ? fmaf(x[c] - max, scale.plain, -log)
                             : AnyLogResult(x[c], scale, max * scale.pre, log, log_lo);
    }
    return fabsf(max) <= (sizeof(In) == 2 ? kMostPlain : FLT_MAX);
  }

  __device__ __forceinline__ static float Maximum(const float (&x)[kColumns]) {
    float max = x[0];
#pragma unroll
    for (int c = 1; c < kColumns; ++c) max = fmaxf(max, x[c]);
    return max;
  }
};

// One vector is several rows: no thread needs another's elements. Each takes kEach vectors.
template <typename In, int kColumns, bool kLog, int kEach>
__device__ __forceinline__ void RunNarrowVectors(const MatrixParams& params, std::int64_t first, int rows,
                                                 const Scale<float>& scale) {
  using Rows = NarrowRows<In, kColumns, kLog>;
  constexpr int kVector = Element<In>::kVector;
  const In* const input = static_cast<const In*>(params.input) + first * kColumns;
  In* const output = static_cast<In*>(params.output) + first * kColumns;
  const int count = rows * kColumns;
  uint4 v[kEach] = {};
  int redo = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = (i * kMatrixThreads + static_cast<int>(threadIdx.x)) * kVector;
    if (at + kVector <= count) {
      v[i] = *reinterpret_cast<const uint4*>(input + at);
    } else if (at < count) {
      v[i] = LoadRange(input + at, 0, count - at);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = (i * kMatrixThreads + static_cast<int>(threadIdx.x)) * kVector;
    uint4 y[1] = {v[i]};
    const bool done = Rows::Run(y, scale);
    if (at + kVector <= count) {
      *reinterpret_cast<uint4*>(output + at) = done ? y[0] : v[i];
    } else if (at < count) {
      StoreRange(output + at, done ? y[0] : v[i], 0, count - at);
    }
    redo |= done ? 0 : 1 << i;
  }
#pragma unroll 1
  for (int i = 0; redo >> i != 0; ++i) {
    const int at = (i * kMatrixThreads + static_cast<int>(threadIdx.x)) * kVector;
    if ((redo >> i & 1) != 0) Rows::Redo(output + at, min(count - at, kVector), scale);
  }
}

template <typename In, int kColumns, bool kLog>
__device__ __forceinline__ void RunNarrowTile(In* tile, int rows, const Scale<float>& scale) {
  using Rows = NarrowRows<In, kColumns, kLog>;
  for (int group = static_cast<int>(threadIdx.x); group * Rows::kRows < rows; group += kMatrixThreads) {
    uint4* const vectors = reinterpret_cast<uint4*>(tile) + group * Rows::kVectors;
    uint4 v[Rows::kVectors];
#pragma unroll
    for (int j = 0; j < Rows::kVectors; ++j) v[j] = vectors[j];
    if (Rows::Run(v, scale)) {
#pragma unroll
      for (int j = 0; j < Rows::kVectors; ++j) vectors[j] = v[j];
    } else {
      Rows::Redo(reinterpret_cast<In*>(vectors), Rows::kRows * kColumns, scale);
    }
  }
}

// Blocks that a multiprocessor has to hold: the vectors take their registers.
template <typename In, int kColumns>
constexpr int kNarrowBlocks = NarrowRows<In, kColumns, false>::kVectors >= 5 ? 3 : 4;

template <typename In, int kColumns, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, (kNarrowBlocks<In, kColumns>))
    NarrowMatrixKernel(const __grid_constant__ MatrixParams params) {
  using Rows = NarrowRows<In, kColumns, kLog>;
  extern __shared__ __align__(16) unsigned char shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block;
  const std::int64_t left = params.rows - first;
  const int rows = left < params.rows_per_block ? static_cast<int>(left) : params.rows_per_block;
  const auto scale = ScaleOf<float>(params);
  AskAhead<In>(params);
  BeginAccess(params);
  const bool whole = params.lengths == nullptr && Rows::Suits(scale);
  if constexpr (Rows::kVectors == 1) {
    if (whole) {
      // Blocks of a small tensor have one vector for each thread, or fewer.
      if (rows <= kMatrixThreads * Rows::kRows) {
        RunNarrowVectors<In, kColumns, kLog, 1>(params, first, rows, scale);
      } else {
        RunNarrowVectors<In, kColumns, kLog, NarrowEach(kColumns, sizeof(In))>(params, first, rows, scale);
      }
      Complete(params.completion);
      return;
    }
  }
  LoadTile(static_cast<const In*>(params.input) + first * kColumns, rows * kColumns, tile);
  if (Rows::kVectors > 1 && whole) {
    RunNarrowTile<In, kColumns, kLog>(tile, rows, scale);
  } else {
    for (int row = static_cast<int>(threadIdx.x); row < rows; row += kMatrixThreads) {
      const int valid = params.lengths == nullptr ? kColumns : static_cast<int>(ValidLength(params, first + row));
      In* const at = tile + row * kColumns;
      TinyRow<In, kColumns, kLog>::Run(at, at, kColumns, valid, false, false, scale);
    }
  }
  __syncthreads();
  StoreTile(tile, rows * kColumns, static_cast<In*>(params.output) + first * kColumns);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
