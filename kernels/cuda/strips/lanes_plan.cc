#include <cmath>

#include "kernels/cuda/columns/planner.h"
#include "kernels/cuda/rows/matrix.h"

// The tiles and the blocks of strips/lanes.cuh.
namespace softmax::kernels::cuda {
namespace {

constexpr int kLeastColumns = 17;  // of small rows: those of fewer are in registers
constexpr int kFewestWarps = 4;
constexpr int kMostTileBytes = 40 * 1024;  // of several outer blocks
constexpr int kMostParts = 64;

// What blocks on a multiprocessor lose with 16-bit elements, whose arithmetic takes longest, if they are fewer than
// six: then phases of theirs that keep the memory busy and others do not make up for each other. Blocks of a cluster
// wait for each other besides.
constexpr double kApart[] = {0, 0.5, 0.8, 0.94, 0.94, 0.98, 1};
constexpr double kClusterApart[] = {0, 0.5, 0.65, 0.75, 0.85, 0.95, 1};
double Apart(int blocks, int element_bytes, bool chunks) {
  if (element_bytes == 4) return blocks > 0 ? 1 : 0;
  const int index = std::min(blocks, 6);
  return chunks ? kClusterApart[index] : kApart[index];
}

// Tiles of strips of 32-bit and 16-bit elements: larger ones have no gain.
constexpr int kMostWordTile = 24 * 1024;
constexpr int kMostHalfTile = 48 * 1024;
// Warps of a block with such a tile: they decide how many share a multiprocessor.
int StripWarps(int tile_bytes, int element_bytes) {
  if (element_bytes == 4) return tile_bytes <= kMostWordTile / 2 ? 6 : 10;
  constexpr int kMoving = 100 * 1024;
  constexpr int kWarps = kLanesBlocks * kLanesThreads / 32;
  return kWarps / std::clamp(kMoving / tile_bytes, kLanesBlocks, kWarps / kFewestWarps);
}

// How well `warps` have even shares of `tasks`, and so many of them hide what each waits for.
double Busy(std::int64_t tasks, int warps, int blocks) {
  constexpr double kEnough = 20;  // on a multiprocessor
  const auto even = static_cast<double>(tasks) / static_cast<double>(DivideUp(tasks, warps) * warps);
  return std::sqrt(even) * std::min(1.0, blocks * warps / kEnough);
}

// So many bytes on a multiprocessor keep the memory busy; with more it is slower. As measured on an H100, like all of
// this.
double Moving(std::int64_t bytes, int element_bytes) {
  constexpr double kLeast = 64 * 1024;
  const double most = (element_bytes == 4 ? 128 : 100) * 1024;
  constexpr double kLoss = 0.0008 / 1024;
  const auto all = static_cast<double>(bytes);
  return std::sqrt(std::min(1.0, all / kLeast)) * (1 - std::max(0.0, all - most) * kLoss);
}

}  // namespace

bool ColumnPlanner::PlanLanes() {
  const bool suits = bytes_ < 8 && !plan_.vectors && !p_.grouped && s_.lengths == nullptr && s_.cols >= kLeastColumns;
  if (!suits) return false;
  const int lanes = small_ ? RowLanes(s_.cols, bytes_) : 32;
  const auto vectors = static_cast<int>(DivideUp(s_.cols, vector_));
  const auto slots = static_cast<int>(DivideUp(vectors, lanes));
  if (small_ && !HasLanes(slots, bytes_)) return false;
  plan_.slots = small_ ? slots : 0;
  p_.tasks.lanes = lanes;
  p_.tasks.warp_lanes_log = Log2(lanes);
  const int last = vectors - (slots - 1) * lanes;  // vectors of the last slot
  p_.tail_places = last > 1 ? vector_ : static_cast<int>(s_.cols) - (vectors - 1) * vector_;
  p_.cluster_blocks = 1;
  p_.step_parts = 1;
  const bool whole = device_.clusters && alike_ && (small_ ? FitOuterBlocks() : FitChunks());
  if (!whole && !FitStrips()) return false;
  plan_.whole = whole;
  p_.rows = Divisor::Of(p_.strip);
  // Lanes are a vector of columns apart.
  p_.tasks.spread_shift = Log2(128 / PowerOfTwoIn(vector_ * p_.pitch, 128));
  p_.tasks.spread_scale = p_.pitch % 4 == 0 ? 0 : 1;
  plan_.lanes = plan_.possible = plan_.blocks <= std::numeric_limits<int>::max();
  return plan_.possible;
}

void ColumnPlanner::SetWhole() {
  p_.strip = static_cast<std::int32_t>(s_.inner);
  p_.strips = 1;
  p_.pitch = p_.strip * bytes_;
}

// Blocks that a multiprocessor holds at a time, of which its registers have room for `most`.
int ColumnPlanner::BlocksHeld(int bytes, int most, std::int64_t all_blocks) const {
  const std::int64_t share = DivideUp(all_blocks, device_.multiprocessors);
  return static_cast<int>(std::min<std::int64_t>({BlocksThatShare(bytes), most, share}));
}

// Small rows, of one outer block or several.
bool ColumnPlanner::FitOuterBlocks() {
  const std::int64_t outer_bytes = s_.cols * s_.inner * bytes_;
  const auto tile = [outer_bytes](std::int64_t parts) { return parts * outer_bytes + 2 * kVectorBytes; };
  if (tile(1) > Share(2)) return false;
  // Few of them are better cut.
  if (4 * s_.outer < device_.multiprocessors && outer_bytes > kOuterTileBytes / 4) return false;
  SetWhole();
  const std::int64_t most =
      p_.dense ? std::min({kMostTileBytes / outer_bytes, s_.outer / ManyBlocks(), std::int64_t{kMostParts}}) : 1;
  double best = 0;
  for (int parts = 1; parts <= std::max<std::int64_t>(1, most); ++parts) {
    const auto bytes = static_cast<int>(RoundUp(static_cast<int>(tile(parts)), kVectorBytes));
    for (int warps = kFewestWarps; warps <= kLanesThreads / 32; ++warps) {
      const int blocks = BlocksHeld(bytes, kLanesBlocks * kLanesThreads / 32 / warps, DivideUp(s_.outer, parts));
      const double worth = Apart(blocks, bytes_, false) * Moving(std::int64_t{blocks} * bytes, bytes_) *
                           Busy(DivideUp(parts * s_.inner, 32 / p_.tasks.lanes), warps, blocks);
      if (worth <= best) continue;
      best = worth;
      p_.step_parts = parts;
      plan_.threads = 32 * warps;
      plan_.dynamic_bytes = bytes;
    }
  }
  plan_.blocks = DivideUp(s_.outer, p_.step_parts);
  return best > 0;
}

// Rows of several chunks, of which each block of a cluster has some. Behind the tile lie the statistics of all chunks
// and then those of the rows.
bool ColumnPlanner::FitChunks() {
  const std::int64_t chunk_bytes = std::int64_t{ChunkColumns(bytes_)} * s_.inner * bytes_;
  if (chunk_bytes > Share(2)) return false;
  SetWhole();
  const int most_warps = ChunksThreads(p_.segment.log != 0) / 32;
  double best = 0;
  for (int cluster = 1; cluster <= std::min<std::int64_t>(device_.cluster_blocks, chunks_); ++cluster) {
    const std::int64_t chunks = DivideUp(chunks_, cluster);
    const std::int64_t bytes =
        chunks * chunk_bytes + 2 * kVectorBytes + (chunks_ + 1) * s_.inner * stats_bytes_ + kVectorBytes;
    if (bytes > Share(2) || 4 * s_.outer * cluster < device_.multiprocessors) continue;
    // Larger clusters wait longer for their slowest block.
    const double whole = static_cast<double>(chunks_) / static_cast<double>(chunks * cluster);
    for (int warps = kFewestWarps; warps <= most_warps; ++warps) {
      const int blocks = BlocksHeld(static_cast<int>(bytes), kLanesBlocks * most_warps / warps, s_.outer * cluster);
      const double worth = Apart(blocks, bytes_, true) * Busy(chunks * s_.inner, warps, blocks) *
                           (bytes_ == 4 ? Moving(blocks * bytes, bytes_) : 1) * (1 + whole) * (1 - 0.01 * cluster);
      if (worth <= best) continue;
      best = worth;
      plan_.cluster_blocks = cluster;
      plan_.threads = 32 * warps;
    }
  }
  if (best == 0) return false;
  p_.cluster_blocks = plan_.cluster_blocks;
  SetTable(DivideUp(chunks_, plan_.cluster_blocks) * chunk_bytes + 2 * kVectorBytes);
  plan_.blocks = s_.outer * plan_.cluster_blocks;
  return true;
}

void ColumnPlanner::SetTable(std::int64_t tile_bytes) {
  p_.table_offset = RoundUp(static_cast<int>(std::min<std::int64_t>(tile_bytes, 1 << 24)), kVectorBytes);
  p_.rows_offset = p_.table_offset + static_cast<int>(chunks_) * p_.strip * stats_bytes_;
  plan_.dynamic_bytes = p_.rows_offset + p_.strip * stats_bytes_;
}

// Small rows of so few columns that several blocks share a multiprocessor, and chunks of 32-bit elements, one for each
// block of a cluster if need be. With others other kernels are as fast, or faster.
bool ColumnPlanner::FitStrips() {
  const int wide = small_ ? kStripBytes : kLargeStripBytes;
  const bool suits = small_ || (HasStripChunks(bytes_) && device_.clusters);
  if (!suits || s_.inner * bytes_ < wide) return false;
  const int width = wide / bytes_;
  p_.strip = width;
  p_.strips = static_cast<std::int32_t>(DivideUp(s_.inner, width));
  p_.pitch = LinesPitch(width);
  p_.line_vectors = Divisor::Of((wide + 2 * kVectorBytes - 2) / kVectorBytes);
  p_.tasks.side_log = Log2(width);
  if (small_) {
    plan_.dynamic_bytes = static_cast<int>(s_.cols) * p_.pitch + 2 * kVectorBytes;
    plan_.threads = 32 * StripWarps(plan_.dynamic_bytes, bytes_);
    plan_.blocks = s_.outer * p_.strips;
    return plan_.dynamic_bytes <= (bytes_ == 4 ? kMostWordTile : kMostHalfTile);
  }
  const std::int64_t most = std::min<std::int64_t>(device_.cluster_blocks, chunks_);
  for (int cluster = 1; cluster <= most; ++cluster) {
    SetTable(DivideUp(chunks_, cluster) * ChunkColumns(bytes_) * p_.pitch + 2 * kVectorBytes);
    if (plan_.dynamic_bytes > Share(2)) continue;
    p_.cluster_blocks = plan_.cluster_blocks = cluster;
    plan_.threads = ChunksThreads(p_.segment.log != 0);
    plan_.blocks = s_.outer * p_.strips * cluster;
    return true;
  }
  return false;
}

// From one column of a strip to the next: as in memory relative to 16-byte boundaries, and with room for the vectors
// that a column lies in.
int ColumnPlanner::LinesPitch(int width) const {
  const int wide = width * bytes_;
  for (auto pitch = static_cast<int>(s_.inner * bytes_ % kVectorBytes);; pitch += kVectorBytes) {
    bool fits = true;
    for (int at = 0; at < kVectorBytes; at += bytes_) {
      fits = fits && RoundUp(at + wide, kVectorBytes) <= (at + pitch) / kVectorBytes * kVectorBytes;
    }
    if (fits) return pitch;
  }
}

}  // namespace softmax::kernels::cuda
