#pragma once

#include "kernels/cuda/column_matrix.cuh"

// Where columns miss the 16-byte boundaries, a part is taken as the aligned vectors of shared memory that it lies in,
// whatever columns and rows their elements belong to. Columns a vector's number of elements apart lie whole vectors
// apart, so the vectors of a lane's slots meet the rows in the same way: a thread that takes the vector v of a lane in
// all slots has one sum for each of its elements, which are those of the tree by place and row. Only where a lane's
// columns begin is shifted, by as much as the part is past a boundary: a lane has a share of one vector more.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, ColumnMode kMode>
struct ColumnMatrix<In, kUnit, kMode>::FlatPart {
  const unsigned char* vectors;
  int skip;      // elements of the first vector that lie before the part
  int elements;  // of the part

  __device__ __forceinline__ int Vectors() const { return (skip + elements + kVector - 1) / kVector; }
};

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ typename ColumnMatrix<In, kUnit, kMode>::FlatPart ColumnMatrix<In, kUnit, kMode>::FlatPartOf(
    int step, int part) const {
  const unsigned char* const first = Part(step, part);
  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(first) % kVectorBytes);
  return {first - past, past / kSize, Columns(IndexOf(step, part)) * params_.strip};
}

// With what does not belong to the part as -inf.
template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ uint4 ColumnMatrix<In, kUnit, kMode>::FlatVector(const FlatPart& part, int vector) const {
  const uint4 raw = *reinterpret_cast<const uint4*>(part.vectors + vector * kVectorBytes);
  const int first = vector * kVector - part.skip;
  if (first >= 0 && first + kVector <= part.elements) return raw;
  In elements[kVector];
  In nothing[kVector];
  const uint4 other = NothingVector<In>();
  memcpy(elements, &raw, sizeof(raw));
  memcpy(nothing, &other, sizeof(other));
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (first + e < 0 || first + e >= part.elements) elements[e] = nothing[e];
  }
  uint4 masked;
  memcpy(&masked, elements, sizeof(masked));
  return masked;
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ bool ColumnMatrix<In, kUnit, kMode>::FlatMaxima(int step, int parts) const {
  const ColumnFlat& flat = params_.flat;
  const int walkers = static_cast<int>(flat.walkers.value);
  for (int task = static_cast<int>(threadIdx.x); task < parts * walkers; task += threads_) {
    const int part = Quotient(task, flat.walkers);
    const FlatPart p = FlatPartOf(step, part);
    const int end = p.Vectors();
    UnitMaximum<In, kVector> maximum;
#pragma unroll 2
    for (int v = task - part * walkers; v < end; v += walkers) maximum.Add(FlatVector(p, v));
    reinterpret_cast<uint4*>(flat_)[task] = maximum.GetRaw();
  }
  __syncthreads();
  bool far = false;
  const int rows = parts * params_.strip;
  // Whole warps go along.
  for (int base = warp_ * 32; base < rows * kVector; base += threads_) {
    const int i = (base + lane_) / kVector;
    const int place = lane_ % kVector;
    const int part = Quotient(i, params_.rows);
    const int row = i - part * params_.strip;
    C max = i < rows ? FlatMaximum(step, part, row, place) : -Infinity<C>();
    for (int offset = kVector / 2; offset > 0; offset /= 2) {
      max = fmax(max, __shfl_xor_sync(0xffffffffu, max, offset));
    }
    if (i >= rows || place != 0) continue;
    maxima_[part * params_.strip + row] = max;
    const ExpBase<C> base_of(max, scale_);
    far = far || base_of.base != 0;
    ForFlatCopies(part, row, [&](int at) { shifts_[at] = base_of.shift; });
  }
  return __syncthreads_or(far ? 1 : 0) != 0;
}

// That of the columns of one place.
template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ ComputeOf<In> ColumnMatrix<In, kUnit, kMode>::FlatMaximum(int step, int part, int row,
                                                                                     int place) const {
  const ColumnFlat& flat = params_.flat;
  const int period = kVector * params_.strip;
  int at = place * params_.strip + row + FlatPartOf(step, part).skip;
  if (at >= period) at -= period;
  const In* p = reinterpret_cast<const In*>(flat_) + part * static_cast<int>(flat.walkers.value) * kVector + at;
  C max = -Infinity<C>();
#pragma unroll 4
  for (int walk = 0; walk < flat.walks; ++walk) {
    max = fmax(max, ToCompute(*p));
    p += period;
  }
  return max;
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatSums(int step, int parts, bool far) const {
  const int rounds = 1 << (tasks_.lane_tasks_log - params_.flat.round_log);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) __syncthreads();
    if (far) {
      FlatLaneSums<true>(step, parts, round);
    } else {
      FlatLaneSums<false>(step, parts, round);
    }
    __syncthreads();
    FlatFold(step, parts, round);
  }
  __syncthreads();
}

// A thread stays with the vectors that meet the rows in the same way, of one lane after the other.
template <typename In, int kUnit, ColumnMode kMode>
template <bool kFar>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatLaneSums(int step, int parts, int round) const {
  const ColumnFlat& flat = params_.flat;
  const int pitch = params_.strip;
  const int walkers = static_cast<int>(flat.lane_walkers.value);
  const int lanes = 1 << (tasks_.warp_lanes_log + flat.round_log);
  const Scale<C> scale = ParamScale();
#pragma unroll 1
  for (int task = static_cast<int>(threadIdx.x); task < parts * walkers; task += threads_) {
    const int part = Quotient(task, flat.lane_walkers);
    const int in_part = task - part * walkers;
    const int walk = Quotient(in_part, flat.lane_vectors);
    const int vector = in_part - walk * static_cast<int>(flat.lane_vectors.value);
    const FlatPart p = FlatPartOf(step, part);
    const int end = p.Vectors();
    const int row = FlatRow(vector * kVector - p.skip);
    C from[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) from[e] = shifts_[part * flat.row_pitch + row + e];
    C* to = flat_ + ((part << tasks_.warp_lanes_log << flat.round_log) + walk) * flat.lane_pitch + vector * kVector;
#pragma unroll 1
    for (int slot = walk; slot < lanes; slot += flat.lane_walks) {
      const int in_warp = slot & ((1 << tasks_.warp_lanes_log) - 1);
      const int lane = (in_warp << tasks_.lane_tasks_log) + (round << flat.round_log) + (slot >> tasks_.warp_lanes_log);
      C sums[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) sums[e] = 0;
#pragma unroll 1
      for (int v = lane * pitch + vector; v < end; v += tasks_.lanes * pitch) {
        C x[kVector];
        Unpack<In>(FlatVector(p, v), x);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          if constexpr (kFar) {
            int at = row + e;
            while (at >= pitch) at -= pitch;
            sums[e] += ExpBase<C>(maxima_[part * pitch + at], scale).Exp(x[e], scale);
          } else {
            sums[e] += ShiftedExp(x[e], from[e], scale);
          }
        }
      }
      constexpr int kStore = kVectorBytes / static_cast<int>(sizeof(C));
#pragma unroll
      for (int e = 0; e < kVector; e += kStore) {
        uint4 raw;
        memcpy(&raw, sums + e, sizeof(raw));
        *reinterpret_cast<uint4*>(to + e) = raw;
      }
      to += flat.lane_walks * flat.lane_pitch;
    }
  }
}

// The sums of a round's lanes over their places, and then over the lanes of a task.
template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatFold(int step, int parts, int round) const {
  const ColumnFlat& flat = params_.flat;
  const int pitch = params_.strip;
  const int others = lane_ >> tasks_.side_log;
  const int in_warp = others & ((1 << tasks_.warp_lanes_log) - 1);
  const int groups = static_cast<int>(tasks_.groups.value);
  const int blocks = (parts + (1 << tasks_.warp_parts_log) - 1) >> tasks_.warp_parts_log;
#pragma unroll 1
  for (int task = warp_; task < blocks * groups << flat.round_log; task += threads_ / 32) {
    const int in_round = task & ((1 << flat.round_log) - 1);
    const int block = Quotient(task >> flat.round_log, tasks_.groups);
    const int part = (block << tasks_.warp_parts_log) + (others >> tasks_.warp_lanes_log);
    const int group = (task >> flat.round_log) - block * groups;
    const int row = (group << tasks_.side_log) + (lane_ & ((1 << tasks_.side_log) - 1));
    const bool active = part < parts && row < params_.strip;
    double sum = 0;
    if (active) {
      const int slot = (((part << flat.round_log) + in_round) << tasks_.warp_lanes_log) + in_warp;
      const C* const p = flat_ + slot * flat.lane_pitch + row + FlatPartOf(step, part).skip;
      C sums[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) sums[e] = p[e * pitch];
      sum = PlacesSum(sums);
    }
    if (tasks_.warp_lanes_log == kFlatLanesLog) {
#pragma unroll
      for (int offset = 1 << kFlatLanesLog >> 1; offset > 0; offset >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset << tasks_.side_log);
      }
    } else {
      for (int offset = 1 << tasks_.warp_lanes_log >> 1; offset > 0; offset >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset << tasks_.side_log);
      }
    }
    if (!active || in_warp != 0) continue;
    const int lane_task = (part << tasks_.lane_tasks_log) + (round << flat.round_log) + in_round;
    sums_[lane_task * params_.strip + row] = sum;
  }
}

// Results leave as the vectors that hold them, but where a part ends.
template <typename In, int kUnit, ColumnMode kMode>
template <typename F>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatWrite(int step, int part, int vector,
                                                                          F result) const {
  const FlatPart p = FlatPartOf(step, part);
  const int walkers = static_cast<int>(params_.flat.walkers.value);
  int first = vector * kVector - p.skip;
  unsigned char* to =
      reinterpret_cast<unsigned char*>(output_) + (Offset(IndexOf(step, part), segment_.output_stride) + first) * kSize;
  const unsigned char* from = p.vectors + vector * kVectorBytes;
#pragma unroll 1
  for (; first < p.elements; first += walkers * kVector) {
    C x[kVector];
    Unpack<In>(*reinterpret_cast<const uint4*>(from), x);
    result(x);
    const uint4 raw = Pack<In>(x);
    if (first >= 0 && first + kVector <= p.elements) {
      *reinterpret_cast<uint4*>(to) = raw;
    } else {
      In elements[kVector];
      memcpy(elements, &raw, sizeof(raw));
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (first + e >= 0 && first + e < p.elements) reinterpret_cast<In*>(to)[e] = elements[e];
      }
    }
    from += walkers * kVectorBytes;
    to += walkers * kVectorBytes;
  }
}

template <typename In, int kUnit, ColumnMode kMode>
template <UnitForm kForm>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatUsual(int step, int part, int vector) const {
  const int row = FlatRow(vector * kVector - FlatPartOf(step, part).skip);
  const RowTerms<C>* const terms = terms_ + (kSmall ? part * params_.flat.row_pitch : 0) + row;
  C from[kVector];
  C factor[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    from[e] = terms[e].from;
    factor[e] = terms[e].factor;
  }
  const Scale<C> scale = ParamScale();
  FlatWrite(step, part, vector, [&](C(&x)[kVector]) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if constexpr (kForm == UnitForm::kExp) {
        x[e] = ShiftedExp(x[e], from[e], scale) * factor[e];
      } else if constexpr (sizeof(In) == 2) {
        x[e] = fma(x[e] - from[e], scale.plain, -factor[e]);
      }
    }
  });
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatLog(int step, int part, int vector) const {
  const int pitch = params_.strip;
  const Normalizer<C>* const rows = rows_ + (kSmall ? part * params_.strip : 0);
  LogTerms<C> terms[kVector];
  int row = FlatRow(vector * kVector - FlatPartOf(step, part).skip);
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    const Normalizer<C>& mine = rows[row];
    terms[e] = LogTerms<C>(mine.base.max_pre, mine.factor, mine.log_lo, params_.zero);
    if (++row == pitch) row = 0;
  }
  const LogScale<C> scale(ParamScale(), params_.log_pre, params_.log_factor);
  FlatWrite(step, part, vector, [&](C(&x)[kVector]) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) x[e] = terms[e].NumberResult(x[e], scale);
  });
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::FlatAny(int step, int part, int vector) const {
  const int pitch = params_.strip;
  const Normalizer<C>* const rows = rows_ + (kSmall ? part * params_.strip : 0);
  const int first = FlatRow(vector * kVector - FlatPartOf(step, part).skip);
  FlatWrite(step, part, vector, [&](C(&x)[kVector]) {
    int row = first;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      C one[1] = {x[e]};
      rows[row].template Apply<In, true>(one);
      x[e] = one[0];
      if (++row == pitch) row = 0;
    }
  });
}

// A thread stays with vectors that meet the rows in the same way.
template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FlatResults(int step) const {
  const int walkers = static_cast<int>(params_.flat.walkers.value);
#pragma unroll 1
  for (int task = static_cast<int>(threadIdx.x); task < StepParts(step) * walkers; task += threads_) {
    const int part = Quotient(task, params_.flat.walkers);
    const int vector = task - part * walkers;
    if (!usual_) {
      FlatAny(step, part, vector);
    } else if (segment_.log == 0) {
      FlatUsual<UnitForm::kExp>(step, part, vector);
    } else if constexpr (sizeof(In) == 2) {
      FlatUsual<UnitForm::kPlainLog>(step, part, vector);
    } else {
      FlatLog(step, part, vector);
    }
  }
}

}  // namespace softmax::kernels::cuda
