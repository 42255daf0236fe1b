#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/columns/fold.cuh"
#include "kernels/cuda/columns/matrix.cuh"
#include "kernels/cuda/columns/sums.cuh"

// How a strip's results are computed and written.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::WriteResults() const {
  const int steps = kSmall ? 1 : (mine_ + params_.step_parts - 1) / params_.step_parts;
  for (int step = steps - 1; step >= 0; --step) {
    if (!kSmall && step < steps - params_.stages) {
      WaitCopies(params_.stages - 1);
      __syncthreads();
    }
    ComputeUnits(step);
    if (kSmall) return;
    if (step >= params_.stages) {
      __syncthreads();
      Read(step - params_.stages);
    }
    CommitCopies();
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ComputeUnits(int step) const {
  const int thread = static_cast<int>(threadIdx.x);
  const int side = Quotient(threads_, params_.units);
  int row = Quotient(thread, params_.units);
  const int unit = thread - row * static_cast<int>(params_.units.value);
  if (row >= side || unit * kUnit >= width_) return;
  const int part_columns = static_cast<int>(params_.part_columns.value);
  const int parts = StepParts(step);
  while (row < parts * part_columns) {
    const int part = Quotient(row, params_.part_columns);
    const int column = row - part * part_columns;
    ComputePart(step, part, column, side, unit);
    // The next column of mine that lies beyond this part.
    do {
      row += side;
    } while (row < (part + 1) * part_columns);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ComputePart(int step, int part, int column, int side,
                                                                            int unit) const {
  const int index = IndexOf(step, part);
  const int columns = Columns(index);
  const int first_row = (kSmall ? part * params_.strip : 0) + unit * kUnit;
  Walk walk;
  walk.from = Part(step, part) + unit * RawUnit::kBytes + column * params_.pitch;
  walk.from_step = side * params_.pitch;
  const int size = params_.output_bytes;
  walk.to = reinterpret_cast<unsigned char*>(output_) + unit * kUnit * size +
            (Offset(index, segment_.output_stride) + column * segment_.inner) * size;
  walk.to_step = side * segment_.inner * size;
  walk.column = column;
  walk.side = side;
  walk.unit = unit;
  const Normalizer<C>* const rows = rows_ + first_row;
  bool is_usual_type = false;
  ForUsualOutput<In>(params_.output_type, [&](auto*) { is_usual_type = true; });
  if (!usual_ || segment_.lengths != nullptr || !is_usual_type) {
    ComputeAny(&walk, index, columns, rows);
  } else if (segment_.log == 0) {
    ComputeUsual<UnitForm::kExp>(&walk, columns, terms_ + first_row);
  } else if constexpr (sizeof(In) == 2) {
    ComputeUsual<UnitForm::kPlainLog>(&walk, columns, terms_ + first_row);
  } else {
    ComputeLog(&walk, columns, rows);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Put(Walk* walk, const C (&x)[kUnit]) const {
  ForUsualOutput<In>(params_.output_type,
                     [&](auto* type) { StoreUnit(reinterpret_cast<decltype(type)>(walk->to), x); });
  walk->from += walk->from_step;
  walk->to += walk->to_step;
  walk->column += walk->side;
}

template <typename In, int kUnit, ColumnMode kMode>
template <UnitForm kForm>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ComputeUsual(Walk* walk, int end,
                                                                             const RowTerms<C>* terms) const {
  C from[kUnit];
  C factor[kUnit];
#pragma unroll
  for (int e = 0; e < kUnit; ++e) {
    from[e] = terms[e].from;
    factor[e] = terms[e].factor;
  }
  const Scale<C> scale = ParamScale();
#pragma unroll(kUnit > 4 ? 2 : 4)
  while (walk->column < end) {
    C x[kUnit];
    RawUnit::Open(RawUnit::Load(walk->from), x);
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      if constexpr (kForm == UnitForm::kExp) {
        x[e] = ShiftedExp(x[e], from[e], scale) * factor[e];
      } else if constexpr (sizeof(In) == 2) {
        x[e] = fma(x[e] - from[e], scale.plain, -factor[e]);
      }
    }
    Put(walk, x);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ComputeLog(Walk* walk, int end,
                                                                           const Normalizer<C>* rows) const {
  LogTerms<C> terms[kUnit];
#pragma unroll
  for (int e = 0; e < kUnit; ++e) {
    terms[e] = LogTerms<C>(rows[e].base.max_pre, rows[e].factor, rows[e].log_lo, params_.zero);
  }
  const LogScale<C> scale(ParamScale(), params_.log_pre, params_.log_factor);
#pragma unroll 1
  while (walk->column < end) {
    C x[kUnit];
    RawUnit::Open(RawUnit::Load(walk->from), x);
#pragma unroll
    for (int e = 0; e < kUnit; ++e) x[e] = terms[e].NumberResult(x[e], scale);
    Put(walk, x);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::ComputeAny(Walk* walk, int index, int columns,
                                                           const Normalizer<C>* rows) const {
  for (; walk->column < columns; walk->column += walk->side) {
    const In* const from = reinterpret_cast<const In*>(walk->from);
#pragma unroll 1
    for (int e = 0; e < kUnit; ++e) {
      C x[1] = {ToCompute(from[e])};
      rows[e].template Apply<In, true>(x);
      const bool valid = walk->column < Limit(index, columns, walk->unit * kUnit + e);
      const C y = valid ? x[0] : rows[e].masked;
      ForAnyType(params_.output_type, [&](auto* type) {
        using Out = std::remove_pointer_t<decltype(type)>;
        reinterpret_cast<Out*>(walk->to)[e] = FromCompute<Out, C>(y);
      });
    }
    walk->from += walk->from_step;
    walk->to += walk->to_step;
  }
}

// The kernel over another axis (columns/matrix.cuh).

// Blocks of MostColumnThreads() that a multiprocessor has to hold.
template <ColumnMode kMode>
constexpr int kColumnBlocks = kMode == ColumnMode::kSmall ? 2 : 1;

template <typename In, int kUnit, ColumnMode kMode>
__global__ void __launch_bounds__(MostColumnThreads(kMode, sizeof(In)), kColumnBlocks<kMode>)
    ColumnMatrixKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  static_assert(sizeof(Normalizer<C>) <= kStripRowBytes, "planned for");
  // On lines of 128 bytes: with the strips 16 bytes past them kernels took 2 to 17 % more time, 32 bytes past them up
  // to 4 %.
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ alignas(Scale<C>) unsigned char scale[sizeof(Scale<C>)];
  __shared__ std::uint64_t barrier;
  WaitForEarlierLaunches();
  AllowNextLaunch();
  // The strip's first barrier comes before anyone uses the scale.
  if (threadIdx.x == 0) {
    if constexpr (sizeof(C) == 8) {
      new (scale) Scale<C>(params.scale_double);
    } else {
      new (scale) Scale<C>(params.scale_float);
    }
  }
  ColumnMatrix<In, kUnit, kMode>(params, shared, &barrier, *reinterpret_cast<const Scale<C>*>(scale)).Run();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
