#pragma once

#include "kernels/cuda/core/part.cuh"

// Rows over another axis (inner > 1). A block takes neighbouring rows, one 32-byte sector wide: it reads their chunks
// with neighbouring threads on neighbouring addresses and lays them out row by row in shared memory, where a group of
// lanes reduces each row exactly as it would a contiguous one. Results are computed element by element on the way out,
// by the thread that also read the element. Chunks that do not fit in shared memory are read twice.
namespace softmax::kernels::cuda {

template <typename In>
class ColumnRows {
 public:
  using C = ComputeOf<In>;

  __device__ ColumnRows(const LaunchParams& params, unsigned char* shared, const DeviceSegment& segment,
                        const Scale<C>& scale)
      : params_(params),
        tiles_(shared + sizeof(RowStats<C>) * kRows),
        row_stats_(reinterpret_cast<RowStats<C>*>(shared)),
        segment_(segment),
        scale_(scale),
        single_(segment.cols <= Element<In>::kSmall),
        chunks_(single_ ? 1 : static_cast<int>((segment.cols + kChunk - 1) / kChunk)),
        pitch_(ColumnTilePitch(segment.cols, sizeof(In))) {
    const std::int64_t room = (params.dynamic_bytes - sizeof(RowStats<C>) * kRows) / (pitch_ * kRows);
    buffers_ = static_cast<int>(room < chunks_ ? room : chunks_);
  }

  __device__ void Run(std::int64_t item) {
    const std::int64_t tiles = (segment_.inner + kRows - 1) / kRows;
    outer_ = item / tiles;
    first_ = item % tiles * kRows;
    const std::int64_t left = segment_.inner - first_;
    rows_ = left < kRows ? static_cast<int>(left) : kRows;
    int width = 1;  // threads that stand side by side: rows_, rounded up to a power of two
    while (width < rows_) width *= 2;
    my_row_ = static_cast<int>(threadIdx.x) % width;
    my_column_ = static_cast<int>(threadIdx.x) / width;
    column_step_ = kBlockThreads / width;

    if (single_) {
      ReduceSmallRows();
    } else {
      ReduceLargeRows();
    }
    if (my_row_ < rows_) WriteRow();
    __syncthreads();  // the next item overwrites the tiles and the statistics
  }

 private:
  static constexpr int kRows = TileRows(sizeof(In));
  static_assert(sizeof(RowStats<C>) == RowStatsBytes(sizeof(C)) && sizeof(RowStats<C>) * kRows % kVectorBytes == 0,
                "planned for");
  static constexpr int kChunk = Element<In>::kChunk;
  // Row groups a warp may have to reduce: all rows over 8 warps.
  static constexpr int kPasses = (kRows + kBlockWarps - 1) / kBlockWarps;

  __device__ In* TileRow(int chunk, int row) const {
    // The last chunks stay; those before them pass through the first buffer.
    const int slot = chunk - (chunks_ - buffers_);
    return reinterpret_cast<In*>(tiles_ + ((slot > 0 ? slot : 0) * kRows + row) * pitch_);
  }
  __device__ int ChunkEnd(std::int64_t end, int chunk) const {
    if (single_) return static_cast<int>(end);
    const std::int64_t n = end - static_cast<std::int64_t>(chunk) * kChunk;
    return n <= 0 ? 0 : n < kChunk ? static_cast<int>(n) : kChunk;
  }
  __device__ std::int64_t Valid(int row) const { return ValidLength(segment_, outer_ * segment_.inner + first_ + row); }
  __device__ const In* Input(int chunk) const {
    return static_cast<const In*>(segment_.input) + outer_ * segment_.input_stride +
           static_cast<std::int64_t>(chunk) * kChunk * segment_.inner + first_ + my_row_;
  }

  __device__ void LoadTile(int chunk) {
    if (my_row_ >= rows_) return;
    const In* const input = Input(chunk);
    In* const tile = TileRow(chunk, my_row_);
    const int end = ChunkEnd(segment_.cols, chunk);
#pragma unroll 8
    for (int c = my_column_; c < end; c += column_step_) tile[c] = input[c * segment_.inner];
  }

  // The statistics of a row's part in its tile.
  template <int kSlots, bool kNarrow>
  __device__ __forceinline__ RowStats<C> TileStats(int chunk, int row, Lanes lanes) const {
    const int n = row < rows_ ? ChunkEnd(Valid(row), chunk) : 0;
    uint4 v[kSlots];
    LoadPart(TileRow(chunk, n > 0 ? row : 0), n, Around{false, false}, true, lanes, v);
    const std::int64_t valid = row >= rows_ ? 0 : chunk == 0 ? Valid(row) : kManyColumns;
    return FirstStats<In, kSlots, kNarrow>(segment_.log != 0, v, n, valid, lanes, scale_);
  }

  // These leave every row's statistics in row_stats_ and the last chunks in the tiles.
  __device__ void ReduceSmallRows() {
    const int thread = static_cast<int>(threadIdx.x);
    const int count = static_cast<int>(segment_.lanes);
    const Lanes lanes{thread & (count - 1), count};
    LoadTile(0);
    __syncthreads();
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int row = thread / count + pass * (kBlockThreads / count);
      const RowStats<C> stats = TileStats<SmallSlots(sizeof(In)), true>(0, row, lanes);
      if (row < rows_ && lanes.lane == 0) row_stats_[row] = stats;
    }
    __syncthreads();
  }
  __device__ void ReduceLargeRows() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
    RowFold<C> fold[kPasses];
    for (RowFold<C>& f : fold) f.flat = chunks_ <= kFlatChunks;
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      if (chunk > 0 && chunk <= chunks_ - buffers_) __syncthreads();  // the buffer is used again
      LoadTile(chunk);
      __syncthreads();
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        const Stats<C> stats = TileStats<kChunkSlots, false>(chunk, warp + pass * kBlockWarps, lanes);
        fold[pass].Add(chunk, stats, lanes.lane, scale_);
      }
    }
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) FinishRow(fold[pass], warp + pass * kBlockWarps);
    __syncthreads();
  }

  __device__ void FinishRow(RowFold<C>& fold, int row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (!fold.flat && chunks_ % kGroupChunks != 0) fold.EndGroup((chunks_ - 1) / kGroupChunks, lane, scale_);
    const Stats<C> stats = fold.Finish(scale_);
    if (row < rows_ && lane == 0) row_stats_[row] = stats;
  }

  __device__ void WriteRow() {
    const std::int64_t valid = Valid(my_row_);
    const Normalizer<C> normalize(scale_, row_stats_[my_row_], segment_.log != 0, valid == 0);
    ForAnyType(params_.output_type, [&](auto* type) {
      using Out = std::remove_pointer_t<decltype(type)>;
      Out* const output = static_cast<Out*>(segment_.output) + outer_ * segment_.output_stride + first_ + my_row_;
      for (int chunk = chunks_ - 1; chunk >= 0; --chunk) {
        const bool kept = chunk >= chunks_ - buffers_;
        const In* const input = kept ? TileRow(chunk, my_row_) : Input(chunk);
        const std::int64_t input_step = kept ? 1 : segment_.inner;
        const int end = ChunkEnd(segment_.cols, chunk);
        const int valid_end = ChunkEnd(valid, chunk);
        Out* const y = output + static_cast<std::int64_t>(chunk) * kChunk * segment_.inner;
#pragma unroll 4
        for (int c = my_column_; c < end; c += column_step_) {
          C x[1] = {ToCompute(input[c * input_step])};
          normalize.template Apply<In, false>(x);
          y[c * segment_.inner] = FromCompute<Out, C>(c < valid_end ? x[0] : normalize.masked);
        }
      }
    });
  }

  const LaunchParams& params_;
  unsigned char* const tiles_;
  RowStats<C>* const row_stats_;
  const DeviceSegment& segment_;
  const Scale<C>& scale_;
  const bool single_;  // small rows: one tile of all columns
  const int chunks_;
  const int pitch_;
  int buffers_ = 0;

  // The item at hand.
  std::int64_t outer_ = 0;
  std::int64_t first_ = 0;  // the first row's place in the inner dimension
  int rows_ = 0;
  int my_row_ = 0;
  int my_column_ = 0;
  int column_step_ = 0;
};

}  // namespace softmax::kernels::cuda
