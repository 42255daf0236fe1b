#pragma once

#include <new>

#include "kernels/cuda/column_lanes.cuh"
#include "kernels/cuda/column_unit.cuh"

// The kernels for rows over another axis that no cluster can hold, where columns are whole vectors: one launch leaves
// the statistics in the workspace, another one reads the tensor again and writes the results. Neither waits for others,
// and the second one begins with what the first one read last, which the L2 may still have.
namespace softmax::kernels::cuda {

// An entry of the table in the workspace. What belongs to other kernels there has tags in the upper words, which are
// below 2^31 (grid_table.cuh); the sums here, which are not negative, never look like one.
struct PassEntry {
  float max;
  std::uint32_t sum;

  static __device__ __forceinline__ PassEntry Of(const Stats<float>& stats) {
    return {stats.max, ~(__float_as_uint(stats.sum) & 0x7fffffffu)};
  }
  __device__ __forceinline__ Stats<float> Get() const { return {max, __uint_as_float(~sum)}; }
};
__device__ __forceinline__ PassEntry* PassTable(const ColumnParams& params) {
  return reinterpret_cast<PassEntry*>(params.completion.workspace + params.workspace_table);
}

// Where a column's vector lies in shared memory: in an order of its own, so that columns that are one apart, or lanes,
// use all banks.
template <int kStripBytes = kPassStripBytes>
__device__ __forceinline__ int PassPlace(int column, int vector) {
  constexpr int kVectors = kStripBytes / kVectorBytes;
  static_assert(kVectors == 4 || kVectors == 8, "a line of banks has two columns, or one");
  return column * kStripBytes + (vector ^ (column * kVectors / 8 % kVectors)) * kVectorBytes;
}

// What a thread has of two neighbouring rows of 16-bit elements, or of one of 32 bits, in a chunk: the slots of a lane.
template <typename In, bool kAll, int kStripBytes = kPassStripBytes>
class ColumnWords {
 public:
  static constexpr int kRows = 4 / static_cast<int>(sizeof(In));

  static constexpr int kSlotBytes = 32 * Element<In>::kVector * kStripBytes;

  // `tile_of(s)`: where the columns of slot s lie; `word`: the rows' place in a column; `columns`: of the chunk.
  template <typename F>
  __device__ __forceinline__ ColumnWords(F tile_of, int word, int columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Eight lanes, as many as there are vectors to a line of banks, read different ones; see PassPlace().
    const int spread = (sizeof(In) == 2 ? lane : lane >> 1) & (kVector - 1);
    int at[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      at[e] = PassPlace<kStripBytes>(lane * kVector + (e ^ spread), word / 4) + word % 4 * 4;
    }
    const int left = columns - lane * kVector;
#pragma unroll
    for (int s = 0; s < kChunkSlots; ++s) {
      const unsigned char* const tile = tile_of(s);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        words_[s][e] = NothingVector<In>().x;
        if (kAll || (e ^ spread) < left - s * 32 * kVector) {
          words_[s][e] = *reinterpret_cast<const std::uint32_t*>(tile + at[e]);
        }
      }
    }
  }
  // By a whole warp.
  __device__ __forceinline__ void Reduce(const Scale<float>& scale, Stats<float> (&stats)[kRows]) const {
    float max[kRows];
    UnitMaximum<In, kRows> maximum;
#pragma unroll
    for (int s = 0; s < kChunkSlots; ++s) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        typename Unit<In, kRows>::Raw raw;
        memcpy(&raw, &words_[s][e], sizeof(raw));
        maximum.Add(raw);
      }
    }
    maximum.Get(max);
#pragma unroll
    for (int row = 0; row < kRows; ++row) stats[row] = ReduceRow(row, LaneMax(max[row], 32), scale);
  }

 private:
  static constexpr int kVector = Element<In>::kVector;

  __device__ __forceinline__ float Get(int s, int e, int row) const {
    typename Unit<In, kRows>::Raw raw;
    memcpy(&raw, &words_[s][e], sizeof(raw));
    float x[kRows];
    Unit<In, kRows>::Open(raw, x);
    return x[row];
  }
  __device__ __forceinline__ Stats<float> ReduceRow(int row, float max, const Scale<float>& scale) const {
    const ExpBase<float> base(max, scale);
    float sums[kVector] = {};
    const auto add_up = [&](auto exp) {
#pragma unroll
      for (int s = 0; s < kChunkSlots; ++s) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const float y = exp(Get(s, e, row));
          sums[e] = s == 0 ? y : sums[e] + y;
        }
      }
    };
    if (base.IsPlain()) {
      add_up([&](float x) { return base.PlainExp(x, scale); });
    } else {
      add_up([&](float x) { return base.Exp(x, scale); });
    }
    return {max, static_cast<float>(LaneSum(PlacesSum(sums), 32) * base.correction)};
  }

  std::uint32_t words_[kChunkSlots][kVector];
};

// A block has the chunks of one entry of the table, one after the other, of a strip.
template <typename In>
__global__ void __launch_bounds__(kPassThreads, 3) ColumnStatsKernel(const __grid_constant__ ColumnParams params) {
  using Words = ColumnWords<In, true>;
  constexpr int kChunk = Element<In>::kChunk;
  constexpr int kSize = static_cast<int>(sizeof(In));
  extern __shared__ __align__(128) unsigned char tile[];
  __shared__ Chain<float> done[kPassStripBytes / sizeof(In)];
  WaitForEarlierLaunches();
  AllowNextLaunch();
  const DeviceSegment& segment = params.segment;
  const auto strips = static_cast<unsigned>(params.strips);
  const auto entries = static_cast<unsigned>(params.table_entries);
  const unsigned rest = blockIdx.x / strips;
  const int first = static_cast<int>(blockIdx.x - rest * strips) * params.strip;
  const unsigned outer = rest / entries;
  const int entry = static_cast<int>(rest - outer * entries);
  const int width = min(params.strip, static_cast<int>(segment.inner) - first);
  const In* const input = static_cast<const In*>(segment.input) + outer * segment.input_stride + first;
  const Scale<float> scale(params.scale_float);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int chunk = entry; chunk < params.chunks; chunk += static_cast<int>(entries)) {
    const std::int64_t column = static_cast<std::int64_t>(chunk) * kChunk;
    const int columns = static_cast<int>(min(segment.cols - column, static_cast<std::int64_t>(kChunk)));
    __syncthreads();
    const int line = Quotient(static_cast<int>(threadIdx.x), params.line_vectors);
    const int vector = static_cast<int>(threadIdx.x) - line * static_cast<int>(params.line_vectors.value);
    const int side = Quotient(kPassThreads, params.line_vectors);
    if (line < side && vector * kVectorBytes < width * kSize) {
      std::uintptr_t memory = reinterpret_cast<std::uintptr_t>(input + (column + line) * segment.inner) +
                              static_cast<unsigned>(vector * kVectorBytes);
      int k = line;
      ForCopies(line, columns, side, [&] {
        CopyAsync(tile + PassPlace(k, vector), memory);
        memory += static_cast<std::uintptr_t>(side * segment.inner * kSize);
        k += side;
      });
    }
    CommitCopies();
    WaitCopiesButLast<0>();
    __syncthreads();
#pragma unroll 1
    for (int row = warp * Words::kRows; row < width; row += kPassThreads / 32 * Words::kRows) {
      Stats<float> stats[Words::kRows];
      const int word = row / Words::kRows;
      const auto tile_of = [](int slot) { return tile + slot * Words::kSlotBytes; };
      if (columns == kChunk) {
        ColumnWords<In, true>(tile_of, word, columns).Reduce(scale, stats);
      } else {
        ColumnWords<In, false>(tile_of, word, columns).Reduce(scale, stats);
      }
#pragma unroll
      for (int k = 0; k < Words::kRows; ++k) {
        auto chain = Chain<float>::From(stats[k]);
        if (chunk != entry) {
          chain = done[row + k];
          chain.Add(stats[k], scale);
        }
        __syncwarp();
        if (lane == 0) done[row + k] = chain;
      }
    }
  }
  __syncthreads();
  const std::int64_t first_row = static_cast<std::int64_t>(outer) * segment.inner + first;
  for (int row = static_cast<int>(threadIdx.x); row < width; row += kPassThreads) {
    PassTable(params)[(first_row + row) * params.table_entries + entry] = PassEntry::Of(done[row].End());
  }
}

// A block has a chunk of a wider strip.
template <typename In, bool kLog>
class ColumnResults {
 public:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kRows = kPassResultBytes / static_cast<int>(sizeof(In));

  struct Shared {
    alignas(16) unsigned char scale[sizeof(Scale<float>)];
    alignas(16) unsigned char rows[kRows * sizeof(Normalizer<float>)];
    Stats<float> tables[kPassThreads / 32][kPassEntries];
  };

  __device__ __forceinline__ ColumnResults(const ColumnParams& params, Shared* shared)
      : params_(params), shared_(*shared), rows_(reinterpret_cast<Normalizer<float>*>(shared->rows)) {
    const DeviceSegment& segment = params.segment;
    const auto strips = static_cast<unsigned>(params.result_strips);
    // What was read last comes first.
    const unsigned index = gridDim.x - 1 - blockIdx.x;
    const unsigned rest = index / strips;
    first_ = static_cast<int>(index - rest * strips) * kRows;
    const auto turns = static_cast<unsigned>((params.chunks + params.table_entries - 1) / params.table_entries);
    const unsigned entry = rest / turns;
    outer_ = entry / static_cast<unsigned>(params.table_entries);
    const auto in_outer = static_cast<int>(entry - outer_ * static_cast<unsigned>(params.table_entries));
    const int chunk = in_outer + static_cast<int>(rest - entry * turns) * params.table_entries;
    column_ = static_cast<std::int64_t>(chunk) * Element<In>::kChunk;
    const std::int64_t left = segment.cols - column_;
    columns_ = left < 0 ? 0 : left < Element<In>::kChunk ? static_cast<int>(left) : Element<In>::kChunk;
    width_ = min(kRows, static_cast<int>(segment.inner) - first_);
  }

  __device__ __forceinline__ void Run() {
    if (columns_ == 0) return;
    if (threadIdx.x == 0) new (shared_.scale) Scale<float>(params_.scale_float);
    __syncthreads();
    Fold();
    const bool usual = __syncthreads_and(MineAreUsual() ? 1 : 0) != 0;
    const int vectors = width_ / kVector;
    const int side = kPassThreads / kPassVectors;
    const int vector = static_cast<int>(threadIdx.x) % kPassVectors;
    const int line = static_cast<int>(threadIdx.x) / kPassVectors;
    if (vector >= vectors) return;
    const Normalizer<float>* const rows = rows_ + vector * kVector;
    if (!usual) {
      AnyLines(line, side, vector);
      return;
    }
    float from[kVector];
    float factor[kVector];
    float low[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      from[e] = !kLog ? rows[e].base.shift : sizeof(In) == 2 ? rows[e].max : rows[e].base.max_pre;
      factor[e] = rows[e].factor;
      low[e] = rows[e].log_lo;
    }
    const Scale<float> scale(params_.scale_float);
    const LogScale<float> log_scale(scale, params_.log_pre, params_.log_factor);
    LogTerms<float> terms[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) terms[e] = LogTerms<float>(from[e], factor[e], low[e], params_.zero);
    ForLines(line, side, vector, [&](float(&x)[kVector]) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if constexpr (!kLog) {
          x[e] = scale.PlainExp(x[e], from[e]) * factor[e];
        } else if constexpr (sizeof(In) == 2) {
          x[e] = fma(x[e] - from[e], scale.plain, -factor[e]);
        } else {
          x[e] = terms[e].NumberResult(x[e], log_scale);
        }
      }
    });
  }

 private:
  __device__ __forceinline__ void Fold() {
    const auto& scale = *reinterpret_cast<const Scale<float>*>(shared_.scale);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t first = static_cast<std::int64_t>(outer_) * params_.segment.inner + first_;
    for (int row = warp; row < width_; row += kPassThreads / 32) {
      const PassEntry* const entries = PassTable(params_) + (first + row) * params_.table_entries;
      for (int i = lane; i < params_.table_entries; i += 32) shared_.tables[warp][i] = entries[i].Get();
      __syncwarp();
      const Stats<float> stats = FoldFlat(shared_.tables[warp], params_.table_entries, lane, scale);
      __syncwarp();
      if (lane == 0) new (rows_ + row) Normalizer<float>(scale, stats, kLog, false);
    }
    __syncthreads();
  }
  __device__ __forceinline__ bool MineAreUsual() const {
    const int row = static_cast<int>(threadIdx.x);
    return row >= width_ || IsUsual<In>(rows_[row]);
  }
  // In any form, element by element.
  __device__ __forceinline__ void AnyLines(int line, int side, int vector) const {
    const DeviceSegment& segment = params_.segment;
    for (int k = line; k < columns_; k += side) {
#pragma unroll 1
      for (int row = vector * kVector; row < (vector + 1) * kVector; ++row) {
        const std::int64_t past = (column_ + k) * segment.inner + first_ + row;
        float x[1] = {ToCompute(static_cast<const In*>(segment.input)[outer_ * segment.input_stride + past])};
        rows_[row].template Apply<In, true>(x);
        static_cast<In*>(segment.output)[outer_ * segment.output_stride + past] = FromCompute<In, float>(x[0]);
      }
    }
  }
  template <typename F>
  __device__ __forceinline__ void ForLines(int line, int side, int vector, F result) const {
    const DeviceSegment& segment = params_.segment;
    const std::int64_t past = (column_ + line) * segment.inner + first_ + vector * kVector;
    const In* from = static_cast<const In*>(segment.input) + outer_ * segment.input_stride + past;
    In* to = static_cast<In*>(segment.output) + outer_ * segment.output_stride + past;
    const std::int64_t step = side * segment.inner;
    constexpr int kAtOnce = 4;
    int k = line;
#pragma unroll 1
    for (; k + (kAtOnce - 1) * side < columns_; k += kAtOnce * side) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) v[i] = *reinterpret_cast<const uint4*>(from + i * step);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float x[kVector];
        Unpack<In>(v[i], x);
        result(x);
        *reinterpret_cast<uint4*>(to + i * step) = Pack<In>(x);
      }
      from += kAtOnce * step;
      to += kAtOnce * step;
    }
#pragma unroll 1
    for (; k < columns_; k += side) {
      float x[kVector];
      Unpack<In>(*reinterpret_cast<const uint4*>(from), x);
      result(x);
      *reinterpret_cast<uint4*>(to) = Pack<In>(x);
      from += step;
      to += step;
    }
  }

  const ColumnParams& params_;
  Shared& shared_;
  Normalizer<float>* const rows_;
  unsigned outer_;
  int first_;  // inner element
  int width_;
  std::int64_t column_;
  int columns_;
};

template <typename In, bool kLog>
__global__ void __launch_bounds__(kPassThreads, 3) ColumnResultsKernel(const __grid_constant__ ColumnParams params) {
  __shared__ typename ColumnResults<In, kLog>::Shared shared;
  WaitForEarlierLaunches();
  AllowNextLaunch();
  ColumnResults<In, kLog>(params, &shared).Run();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
