#include "kernels/cuda/small_rows/tile.h"

#include <algorithm>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/plan/rows.h"

namespace softmax::kernels::cuda {
namespace {

// Bytes of a row's results where they are kept as numbers beside the row: see TileMatrixKernel.
int NumberBytes(int bytes, const MatrixPlan& plan) {
  return plan.mixed && bytes == 2 ? static_cast<int>(plan.params.cols * sizeof(float)) : 0;
}

void SetTiles(int rows, int pitch, int number_bytes, MatrixPlan* plan) {
  const auto vectors = [rows](int row_bytes) { return static_cast<int>(DivideUp(rows * row_bytes, kVectorBytes)); };
  MatrixParams& p = plan->params;
  p.rows_per_block = rows;
  plan->dynamic_bytes = (vectors(pitch) + vectors(number_bytes)) * kVectorBytes;
  plan->blocks = DivideUp(p.rows, rows);
}

// The size for rows of which each of `threads` threads has a share; -1: there is none.
int FindSize(int bytes, std::int64_t cols, int threads, bool alone, int share) {
  const int step = threads * VectorElements(bytes);
  for (int size = 0; size < TileSizes(bytes); ++size) {
    const TileSize s = TileSizeOf(size, bytes);
    if (s.alone == alone && s.share == share && cols >= s.whole * step && cols <= s.vectors * step) return size;
  }
  return -1;
}

// Whether there are so few rows that a thread for each takes longer than several lanes, since the launch lasts as long
// as one row does. Up to so many rows, as measured on an H200; rows whose number of columns is compiled are short.
bool AreFewForThreads(const MatrixParams& p, int bytes, int vectors) {
  if (p.rows <= 4096) return p.cols > kPreciseColumns;
  const bool is_float_log = bytes == 4 && p.log;  // it takes the longest
  if (vectors < (bytes == 2 ? 3 : is_float_log ? 5 : 11)) return false;
  return p.rows <= (is_float_log ? 32768 : 16384);
}

// Rows of a tile with a thread a row: as many for each thread, so that about six tiles fill the shared memory. Of a
// tensor that leaves multiprocessors with few, each has one tile, or up to eight with a row a thread and then more
// rows, as blocks that stand alone wait for their memory. As measured on an H200.
int AloneRows(std::int64_t rows, int row_bytes, int bytes, const Device& device) {
  constexpr std::int64_t kTiles = 8;
  const int fits = (device.shared_bytes - kMatrixTableBytes) / row_bytes;
  const int each = device.shared_bytes / 6 / row_bytes + kMatrixThreads / 2;
  const int wanted = std::max(kMatrixThreads, each / kMatrixThreads * kMatrixThreads);
  const std::int64_t share = DivideUp(rows, device.multiprocessors);
  const std::int64_t least = bytes == 2 ? 100 : 160;  // that tiles of a row a thread are faster with
  const std::int64_t few =
      share < least ? std::max<std::int64_t>(32, share) : kMatrixThreads * DivideUp(share, kTiles * kMatrixThreads);
  return static_cast<int>(std::min<std::int64_t>({wanted, fits, few}));
}

bool PlanAlone(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const auto vectors = static_cast<int>(DivideUp(p.cols, VectorElements(bytes)));
  const int size = p.cols <= kPreciseColumns ? 0 : FindSize(bytes, p.cols, 1, true, RowLanes(p.cols, bytes));
  if (size < 0 || AreFewForThreads(p, bytes, vectors)) return false;
  const int pitch = static_cast<int>(p.cols) * bytes;
  const int number_bytes = NumberBytes(bytes, *plan);
  const int step = VectorElements(bytes);  // so many rows begin on a boundary again
  const int rows = std::max(step, AloneRows(p.rows, pitch + number_bytes, bytes, device) / step * step);
  p.lanes = 1;
  plan->size = size;
  SetTiles(static_cast<int>(std::min<std::int64_t>(p.rows, rows)), pitch, number_bytes, plan);
  return true;
}

// How often each thread of a tile has a row, `threads` to a row: once, or twice where the blocks that a multiprocessor
// holds would otherwise have too little on their way, and with fast memory even more often of 16 bits, as their blocks
// take longer for the same bytes. As measured, with either memory.
int TileRounds(int bytes, int vectors, int threads, bool log, int round_bytes, const Device& device) {
  if (bytes == 2 && device.fast_memory) {
    const int tiles = vectors > 4 ? 4 : 6;
    return std::max(1, (device.shared_bytes / tiles + round_bytes / 2) / round_bytes);
  }
  if (bytes == 2) {
    constexpr int kLargeRound = 21 * 1024 + 512;
    return vectors < 6 || round_bytes < kLargeRound ? 2 : 1;
  }
  constexpr int kSmallRound = 13 * 1024;
  if (log && !device.fast_memory) return threads >= 8 && round_bytes < kSmallRound ? 2 : 1;
  if (log) return vectors <= 6 ? 2 : 1;
  const bool is_usual = threads == 8 || threads == 16;
  return device.fast_memory && round_bytes <= (is_usual ? 18 : 23) * 1024 ? 2 : 1;
}

// Columns up to which tiles are faster than lanes where results are of another type. As measured on an H100.
std::int64_t MostMixedTileColumns(int bytes, bool log) { return bytes == 2 ? 640 : log ? SmallColumns(4) : 400; }

// Tiles of one row a group, for each two multiprocessors, that are enough: with fewer, lanes are faster. `vectors`: of
// a thread. As measured on an H200.
int LeastTiles(int bytes, int vectors, std::int64_t cols, bool mixed) {
  constexpr std::int64_t kFewColumns = 256;
  constexpr std::int64_t kSlowColumns = 320;  // lanes with three vectors are slow up to here; those of 16 bits all are
  if (bytes == 2) return cols <= kSlowColumns ? (mixed ? 2 : 1) : mixed ? 8 : 4;
  if (vectors == 5 && cols <= kSlowColumns) return cols > kFewColumns ? 8 : mixed ? 4 : 2;
  return cols > kFewColumns ? 16 : vectors > 5 || mixed ? 8 : 4;
}

// Fewer columns are faster with a thread a row.
constexpr std::int64_t LeastSharedColumns(int bytes) { return bytes == 2 ? 49 : 33; }

bool PlanShared(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // fp32 log-softmax of more columns is faster with lanes, which hold half as much, or bulk copies.
  constexpr std::int64_t kMostLogColumns = 512;
  if (bytes == 4 && p.log && p.cols > kMostLogColumns) return false;
  if (plan->mixed && p.cols > MostMixedTileColumns(bytes, p.log)) return false;
  if (p.cols < LeastSharedColumns(bytes)) return false;
  const int lanes = RowLanes(p.cols, bytes);
  const std::int64_t all = DivideUp(p.cols, VectorElements(bytes));
  for (int share = 2; share > 0; --share) {
    const int threads = lanes / share;
    const auto vectors = static_cast<int>(DivideUp(all, threads));
    const int size = FindSize(bytes, p.cols, threads, false, share);
    if (size < 0) continue;
    const int groups = kMatrixThreads / threads;
    const int pitch = static_cast<int>(p.cols) * bytes;
    const int number_bytes = NumberBytes(bytes, *plan);
    const int most = number_bytes > 0 ? 1 : TileRounds(bytes, vectors, threads, p.log, groups * pitch, device);
    const std::int64_t tiles = 2 * p.rows / groups / device.multiprocessors;
    if (tiles < LeastTiles(bytes, vectors, p.cols, plan->mixed)) return false;
    p.lanes = threads;
    plan->size = size;
    constexpr std::int64_t kFullTiles = 8;  // before tiles grow: four for each multiprocessor
    SetTiles(groups * static_cast<int>(std::clamp<std::int64_t>(tiles / kFullTiles, 1, most)), pitch, number_bytes,
             plan);
    return true;
  }
  return false;
}

}  // namespace

bool PlanTile(const Device& device, MatrixPlan* plan) {
  const int bytes = plan->bytes();
  if (plan->params.cols > MostTileColumns(bytes)) return false;
  return PlanShared(bytes, device, plan) || PlanAlone(bytes, device, plan);
}

}  // namespace softmax::kernels::cuda
