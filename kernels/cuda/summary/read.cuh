#pragma once

#include "kernels/cuda/core/row_part.cuh"
#include "kernels/cuda/summary/results.cuh"
#include "kernels/cuda/summary/top.cuh"

namespace softmax::kernels::cuda {

// A row, small or not, and the table of its chunks.
template <typename In>
class SummaryRow {
 public:
  using C = ComputeOf<In>;
  using Key = KeyOf<In>;
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kVector = Element<In>::kVector;

  // `tables`: the launch's (SummaryParams).
  __device__ __forceinline__ SummaryRow(unsigned char* tables, const DeviceSummary& of, int number)
      : segment(of),
        scale(*reinterpret_cast<const Scale<C>*>(of.scale_parts)),
        row(number),
        chunks(static_cast<int>((of.cols + kChunk - 1) / kChunk)),
        valid(ValidLength(of, number)),
        input(static_cast<const In*>(of.input) +
              (of.inner == 1 ? number * of.input_stride : number / of.inner * of.input_stride + number % of.inner)) {
    stats =
        reinterpret_cast<Stats<C>*>(tables + of.tables + number * SummaryTableBytes(chunks, sizeof(C), of.has_lanes));
    products = reinterpret_cast<double*>(stats + chunks);
    lane_maxima = reinterpret_cast<Key*>(products + chunks);
  }

  __device__ __forceinline__ std::int64_t ColumnOf(int chunk) const { return std::int64_t{chunk} * kChunk; }
  // How many of the columns from `column` on, `most` at most, are valid.
  __device__ __forceinline__ int Within(std::int64_t column, int most) const {
    const std::int64_t n = valid - column;
    return n <= 0 ? 0 : n < most ? static_cast<int>(n) : most;
  }

  // Whether chunks are read in the usual way. The elements' places in the sum of products are by column, which those of
  // rotated vectors are not.
  __device__ __forceinline__ bool IsPlain() const {
    return segment.inner == 1 && segment.entropy == nullptr && IsFast(scale) &&
           !(segment.log != 0 && valid <= kPreciseColumns);
  }
  // Columns by which a lane's vectors, of which it keeps the maximum, begin before its place (core/row_part.cuh).
  __device__ __forceinline__ int Skip() const { return IsPlain() && segment.wide == 0 ? Misalignment(input) : 0; }
  __device__ __forceinline__ bool IsAligned(std::int64_t column) const {
    return segment.inner == 1 && reinterpret_cast<std::uintptr_t>(input + column) % kVectorBytes == 0;
  }

  // One row of another axis, or of contiguous elements, as a group's vectors.
  template <int kSlots>
  __device__ __forceinline__ void LoadVectors(std::int64_t column, int n, Lanes lanes, uint4 (&v)[kSlots]) const {
    if (segment.inner == 1) {
      const std::int64_t rest = valid - column - n;
      LoadPart(input + column, n, Around{column > 0, rest >= kVector}, segment.wide != 0, lanes, v);
      return;
    }
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      In x[kVector];
      v[j] = NothingVector<In>();
      memcpy(x, &v[j], sizeof(x));
      const int at = (j * lanes.count + lanes.lane) * kVector;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (at + e < n) x[e] = input[(column + at + e) * segment.inner];
      }
      memcpy(&v[j], x, sizeof(x));
    }
  }

  const DeviceSummary& segment;
  const Scale<C>& scale;
  const int row;
  const int chunks;
  const std::int64_t valid;
  const In* const input;
  // Of each chunk its statistics, its part of the entropy, and its lanes' maxima where they are kept.
  Stats<C>* stats;
  double* products;
  Key* lane_maxima;
};

// Reads one chunk, by a warp, and leaves in the row's table what is needed of it.
template <typename In, bool kSkew>
__device__ __forceinline__ void ReadPlainChunk(const SummaryRow<In>& row, int chunk, Lanes lanes) {
  using C = ComputeOf<In>;
  const std::int64_t column = row.ColumnOf(chunk);
  RowPart<In, kChunkSlots, kSkew> part;
  part.Load(part.PlaceOf(row.input + column, row.valid - column, Around{column > 0, false}, lanes), lanes);
  const Stats<C> stats = part.template ChunkStats<kChunkSlots>(0, lanes, row.scale);
  if (lanes.lane == 0) row.stats[chunk] = stats;
  if (row.segment.has_lanes == 0) return;
  uint4 v[kChunkSlots];
  part.template Vectors<kChunkSlots>(0, v);
  row.lane_maxima[chunk * 32 + lanes.lane] = MakeKeyOf<In>(LaneMaximum<In, kChunkSlots, true>(v, 0, lanes));
}
// The same for all other rows: a function of its own, as plain chunks need fewer registers.
template <typename In>
__device__ __noinline__ void ReadAnyChunk(const SummaryParams& params, const DeviceSummary& segment, int number,
                                          int chunk) {
  using C = ComputeOf<In>;
  const SummaryRow<In> row(params.tables, segment, number);
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  const bool is_precise = segment.log != 0 && row.valid <= kPreciseColumns;
  const std::int64_t column = row.ColumnOf(chunk);
  const int n = row.Within(column, SummaryRow<In>::kChunk);
  uint4 v[kChunkSlots];
  row.LoadVectors(column, n, lanes, v);
  const Stats<C> stats = FirstStats<In, kChunkSlots, false>(
      segment.log != 0, v, n, column == 0 && is_precise ? row.valid : kManyColumns, lanes, row.scale);
  if (lanes.lane == 0) row.stats[chunk] = stats;
  if (segment.entropy != nullptr) {
    const double products = Products<In>(segment, v, n, stats.max, lanes);
    if (lanes.lane == 0) row.products[chunk] = products;
  }
  if (segment.has_lanes != 0) {
    row.lane_maxima[chunk * 32 + lanes.lane] = MakeKeyOf<In>(LaneMaximum<In, kChunkSlots, false>(v, n, lanes));
  }
}
template <typename In>
__device__ __forceinline__ void ReadChunk(const SummaryParams& params, const DeviceSummary& segment, int number,
                                          int chunk) {
  const SummaryRow<In> row(params.tables, segment, number);
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  if (!row.IsPlain()) {
    ReadAnyChunk<In>(params, segment, number, chunk);
  } else if (segment.wide != 0) {
    ReadPlainChunk<In, false>(row, chunk, lanes);
  } else {
    ReadPlainChunk<In, true>(row, chunk, lanes);
  }
}

}  // namespace softmax::kernels::cuda
