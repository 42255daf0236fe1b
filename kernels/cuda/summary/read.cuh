#pragma once

#include "kernels/cuda/core/row_part.cuh"
#include "kernels/cuda/summary/results.cuh"

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
        chunks(static_cast<int>((of.rows.cols + kChunk - 1) / kChunk)),
        valid(ValidLength(of.rows, number)),
        input(static_cast<const In*>(of.rows.input) +
              (of.rows.inner == 1 ? number * of.rows.input_stride
                                  : number / of.rows.inner * of.rows.input_stride + number % of.rows.inner)) {
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

  // Whether chunks are read in the usual way. Places in the sum of products are by column, unlike those of rotated
  // vectors.
  __device__ __forceinline__ bool IsPlain() const {
    return segment.rows.inner == 1 && segment.entropy == nullptr && IsFast(scale) &&
           !(segment.IsLog() && valid <= kPreciseColumns);
  }
  // Columns by which a lane's vectors, of which it keeps the maximum, begin before its place (core/row_part.cuh).
  __device__ __forceinline__ int Skip() const { return IsPlain() ? Misalignment(input) : 0; }

  // The vector `at` columns behind `column`; what lies before that or is not of the `n` columns there is nothing.
  __device__ __forceinline__ uint4 VectorAt(std::int64_t column, int at, int n) const {
    const In* const p = input + (column + at) * segment.rows.inner;
    if (segment.rows.inner == 1 && at >= 0 && at + kVector <= n && Misalignment(p) == 0) {
      return *reinterpret_cast<const uint4*>(p);
    }
    uint4 v = NothingVector<In>();
    In x[kVector];
    memcpy(x, &v, sizeof(x));
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (at + e >= 0 && at + e < n) x[e] = p[e * segment.rows.inner];
    }
    memcpy(&v, x, sizeof(x));
    return v;
  }
  // A group's vectors of the `n` columns behind `column`.
  template <int kSlots>
  __device__ __forceinline__ void LoadVectors(std::int64_t column, int n, Lanes lanes, uint4 (&v)[kSlots]) const {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) v[j] = VectorAt(column, (j * lanes.count + lanes.lane) * kVector, n);
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
  const std::int64_t column = row.ColumnOf(chunk);
  RowPart<In, kChunkSlots, kSkew> part;
  part.Load(part.PlaceOf(row.input + column, row.valid - column, Around{column > 0, false}, lanes), lanes);
  const Stats<ComputeOf<In>> stats = part.template ChunkStats<kChunkSlots>(0, lanes, row.scale);
  if (lanes.lane == 0) row.stats[chunk] = stats;
  if (!row.segment.has_lanes) return;
  uint4 v[kChunkSlots];
  part.template Vectors<kChunkSlots>(0, v);
  row.lane_maxima[chunk * 32 + lanes.lane] = MakeKeyOf<In>(LaneMaximum<In, kChunkSlots, true>(v, 0, lanes));
}
// The same for all other rows: a function of its own, as plain chunks need fewer registers.
template <typename In>
__device__ __noinline__ void ReadAnyChunk(unsigned char* tables, const DeviceSummary& segment, int number, int chunk) {
  const SummaryRow<In> row(tables, segment, number);
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  const std::int64_t column = row.ColumnOf(chunk);
  const int n = row.Within(column, SummaryRow<In>::kChunk);
  uint4 v[kChunkSlots];
  row.LoadVectors(column, n, lanes, v);
  const Stats<ComputeOf<In>> stats = FirstStats<In, kChunkSlots, false>(
      segment.IsLog(), v, n, column == 0 ? row.valid : kManyColumns, lanes, row.scale);
  if (lanes.lane == 0) row.stats[chunk] = stats;
  if (segment.entropy != nullptr) {
    const double products = Products<In>(segment, v, n, stats.max, lanes);
    if (lanes.lane == 0) row.products[chunk] = products;
  }
  if (segment.has_lanes) {
    row.lane_maxima[chunk * 32 + lanes.lane] = MakeKeyOf<In>(LaneMaximum<In, kChunkSlots, false>(v, n, lanes));
  }
}
template <typename In>
__device__ __forceinline__ void ReadChunk(unsigned char* tables, const DeviceSummary& segment, int number, int chunk) {
  const SummaryRow<In> row(tables, segment, number);
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  if (!row.IsPlain()) {
    ReadAnyChunk<In>(tables, segment, number, chunk);
  } else if (row.Skip() == 0) {
    ReadPlainChunk<In, false>(row, chunk, lanes);
  } else {
    ReadPlainChunk<In, true>(row, chunk, lanes);
  }
}

}  // namespace softmax::kernels::cuda
