#pragma once

#include "kernels/cuda/column_matrix.cuh"

// How a strip's results are computed and written.
namespace softmax::kernels::cuda {

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::WriteResults() const {
  for (int step = strip_.steps - 1; step >= 0; --step) {
    if (step < strip_.steps - params_.stages) {
      WaitCopies(params_.stages - 1);
      __syncthreads();
    }
    ComputeStep(step);
    if (kUnit == 1 && params_.alike) {
      __syncthreads();
      ForLines(step, static_cast<In*>(segment_.output), segment_.output_stride,
               [&](const Lines& lines) { WriteLines<In>(lines); });
    }
    if (step >= params_.stages) {
      __syncthreads();
      Read(step - params_.stages);
    }
    CommitCopies();
  }
}

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::ComputeStep(int step) const {
  const int units = strip_.width / kUnit;
  const int side = kBlockThreads / units;
  int row = static_cast<int>(threadIdx.x) / units;
  if (row >= side) return;
  const int unit = static_cast<int>(threadIdx.x) - row * units;
  const int part_columns = params_.small ? static_cast<int>(segment_.cols) : kChunk;
  const Divider divider(part_columns);
  const int parts = StepParts(step);
  while (row < parts * part_columns) {
    const int part = divider.Of(row);
    const int column = row - part * part_columns;
    ComputePart(step, part, column, side, unit);
    // The next column of mine that lies beyond this part.
    row += (part_columns - column + side - 1) / side * side;
  }
}

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::ComputePart(int step, int part, int column, int side,
                                                                     int unit) const {
  if (segment_.log == 0) {
    ComputeColumns<UnitForm::kExp>(step, part, column, side, unit);
    return;
  }
  if constexpr (sizeof(In) == 2) {
    if (scale_.plain != 0) {
      ComputeColumns<UnitForm::kPlainLog>(step, part, column, side, unit);
      return;
    }
  }
  ComputeColumns<UnitForm::kLog>(step, part, column, side, unit);
}

template <typename In, int kUnit>
template <UnitForm kForm>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::ComputeColumns(int step, int part, int column, int side,
                                                                        int unit) const {
  const Normalizer<C>* rows = rows_ + (params_.small ? part * params_.strip : 0) + unit * kUnit;
  const int index = step * params_.step_parts + part;
  const int columns = Columns(index);
  // A form that is rare and needs many registers goes without copies altogether.
  constexpr bool kRare = kForm == UnitForm::kLog && kUnit > 4;
  const int least = kRare ? 0 : LeastLimit(index, columns, unit * kUnit);
  unsigned char* p = Stage(step) + part * params_.part_bytes + unit * RawUnit::kBytes + column * params_.pitch;
  const int p_step = side * params_.pitch;
  // Results go where the units were if they are written from there.
  const bool in_place = kUnit == 1 && params_.alike;
  unsigned char* out = p;
  std::int64_t out_step = p_step;
  if (!in_place) {
    out = reinterpret_cast<unsigned char*>(static_cast<In*>(segment_.output) + unit * kUnit +
                                           Offset(index, segment_.output_stride) + column * segment_.inner);
    out_step = side * segment_.inner * static_cast<int>(sizeof(In));
  }
  const UnitNormalizers<C, std::make_index_sequence<kUnit>> normalizers(rows);
#pragma unroll 1
  for (; column < least; column += side) {
    C x[kUnit];
    RawUnit::Open(RawUnit::Load(p), x);
    ApplyUnit<In, kForm>(normalizers.of, x);
    *reinterpret_cast<Raw*>(out) = RawUnit::Close(x);
    p += p_step;
    out += out_step;
  }
#pragma unroll 1
  for (; column < columns; column += side) {
    C x[kUnit];
    RawUnit::Open(RawUnit::Load(p), x);
    asm volatile("" : "+l"(rows));
    ApplyUnit<In, kForm>(rows, x);
#pragma unroll
    for (int e = 0; e < kUnit; ++e) {
      if (column >= Limit(index, columns, unit * kUnit + e)) x[e] = rows[e].masked;
    }
    *reinterpret_cast<Raw*>(out) = RawUnit::Close(x);
    p += p_step;
    out += out_step;
  }
}

}  // namespace softmax::kernels::cuda
