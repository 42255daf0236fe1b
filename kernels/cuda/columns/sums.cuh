#pragma once

#include "kernels/cuda/columns/matrix.cuh"

// The maxima and the sums of exponentials of a step's parts, task by task. A thread takes one lane of the tree: the
// units of its slots, one sum for each place within a vector.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::MaskStep(int step) const {
  const int rows = StepParts(step) * params_.strip;
  const int side = rows < threads_ ? threads_ / rows : 1;
  for (int i = static_cast<int>(threadIdx.x); i < rows * side; i += threads_) {
    const int part = Quotient(i % rows, params_.rows);
    const int row = i % rows - part * params_.strip;
    if (row >= width_) continue;
    const int index = IndexOf(step, part);
    const int columns = Columns(index);
    unsigned char* const p = Part(step, part) + row * kSize;
    for (int column = Limit(index, columns, row) + i / rows; column < columns; column += side) {
      *reinterpret_cast<In*>(p + column * params_.pitch) = FromCompute<In, C>(-Infinity<C>());
    }
  }
  __syncthreads();
}

template <typename In, int kUnit, ColumnMode kMode>
template <typename F>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ForUnits(int step, const Place& place, F f) const {
  using ReducedRaw = typename Reduced::Raw;
  const int slot_columns = tasks_.lanes * kVector;
  const int slot_bytes = slot_columns * params_.pitch;
  const int columns = Columns(IndexOf(step, place.part));
  const int spread = Spread(place);
  int column = place.lane * kVector;
  const unsigned char* const first = Part(step, place.part) + place.unit * Reduced::kBytes + column * params_.pitch;
  const unsigned char* at[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) at[e] = first + (e ^ spread) * params_.pitch;
#pragma unroll 1
  for (; column + kVector <= columns; column += slot_columns) {
    ReducedRaw raw[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      raw[e] = Reduced::Load(at[e]);
      at[e] += slot_bytes;
    }
#pragma unroll
    for (int e = 0; e < kVector; ++e) f(e, raw[e]);
  }
  if (column >= columns) return;
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (column + (e ^ spread) < columns) f(e, Reduced::Load(at[e]));
  }
}

template <typename In, int kUnit, ColumnMode kMode>
template <typename F>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ForTasks(int parts, const Place& first, F f) const {
  const int count = TaskCount(parts);
  Place place = first;
#pragma unroll 1
  for (int task = warp_; task < count;) {
    f(place);
    task += threads_ / 32;
    if (task < count) place = PlaceOf(task, parts);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Maxima(int step, int parts, const Place& first) const {
  ForTasks(parts, first, [&](const Place& place) {
    UnitMaximum<In, kReduced> maximum;
    if (place.active) {
      ForUnits(step, place, [&](int, const typename Reduced::Raw& raw) { maximum.Add(raw); });
    }
    for (int offset = 1 << tasks_.warp_lanes_log >> 1; offset > 0; offset >>= 1) {
      maximum.Exchange(offset << tasks_.side_log);
    }
    if (!place.active || place.in_warp != 0) return;
    C max[kReduced];
    maximum.Get(max);
#pragma unroll
    for (int k = 0; k < kReduced; ++k) task_maxima_[TaskAt(place) + k] = max[k];
  });
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::PartMaxima(const Place& place,
                                                                           C (&max)[kReduced]) const {
  const int tasks = 1 << tasks_.lane_tasks_log;
  const C* p = task_maxima_ + (place.part << tasks_.lane_tasks_log) * params_.strip + place.unit * kReduced;
#pragma unroll
  for (int k = 0; k < kReduced; ++k) max[k] = p[k];
#pragma unroll 4
  for (int task = 1; task < tasks; ++task) {
    p += params_.strip;
#pragma unroll
    for (int k = 0; k < kReduced; ++k) max[k] = fmax(max[k], p[k]);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Sums(int step, int parts, const Place& first) const {
  ForTasks(parts, first, [&](const Place& place) {
    double sum[kReduced];
#pragma unroll
    for (int k = 0; k < kReduced; ++k) sum[k] = 0;
    if (place.active) {
      C max[kReduced];
      PartMaxima(place, max);
      if (place.task == 0 && place.in_warp == 0) {
#pragma unroll
        for (int k = 0; k < kReduced; ++k) maxima_[place.part * params_.strip + place.unit * kReduced + k] = max[k];
      }
      bool shifted = true;
      if constexpr (sizeof(C) == 4) {
#pragma unroll
        for (int k = 0; k < kReduced; ++k) shifted = shifted && ExpBase<C>(max[k], scale_).base == 0;
      }
      if (shifted) {
        SumExponentials<true>(step, place, max, sum);
      } else {
        SumExponentials<false>(step, place, max, sum);
      }
    }
    for (int offset = 1 << tasks_.warp_lanes_log >> 1; offset > 0; offset >>= 1) {
#pragma unroll
      for (int k = 0; k < kReduced; ++k) {
        sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], offset << tasks_.side_log);
      }
    }
    if (!place.active || place.in_warp != 0) return;
#pragma unroll
    for (int k = 0; k < kReduced; ++k) sums_[TaskAt(place) + k] = sum[k];
  });
}

template <typename In, int kUnit, ColumnMode kMode>
template <bool kShifted>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::SumExponentials(int step, const Place& place,
                                                                                const C (&max)[kReduced],
                                                                                double (&sum)[kReduced]) const {
  C from[kReduced];  // the shift or, for doubles, max_pre
#pragma unroll
  for (int k = 0; k < kReduced; ++k) {
    if constexpr (sizeof(C) == 8) {
      from[k] = ExpBase<C>(max[k], scale_).max_pre;
    } else {
      from[k] = ExpBase<C>(max[k], scale_).shift;
    }
  }
  const Scale<C> scale = ParamScale();
  C sums[kReduced][kVector];
#pragma unroll
  for (int k = 0; k < kReduced; ++k) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) sums[k][e] = 0;
  }
  ForUnits(step, place, [&](int e, const typename Reduced::Raw& raw) {
    C x[kReduced];
    Reduced::Open(raw, x);
#pragma unroll
    for (int k = 0; k < kReduced; ++k) {
      if constexpr (kShifted) {
        sums[k][e] += ShiftedExp(x[k], from[k], scale);
      } else {
        sums[k][e] += ExpBase<C>(max[k], scale).Exp(x[k], scale);
      }
    }
  });
#pragma unroll
  for (int k = 0; k < kReduced; ++k) sum[k] = PlacesSum(sums[k]);
}

}  // namespace softmax::kernels::cuda
