#include "kernels/cuda/column_planner.h"

// The layout and the threads of column_flat.cuh.
namespace softmax::kernels::cuda {

int ColumnPlanner::FlatSumsBytes() const {
  return std::max(FlatLaneSumsBytes(), p_.step_parts * static_cast<int>(p_.flat.walkers.value) * kVectorBytes);
}

int ColumnPlanner::BlocksThatShare(int bytes) const {
  return std::max(1, (device_.shared_bytes + kReservedBytes) / (bytes + kReservedBytes));
}

int ColumnPlanner::FlatLayout() {
  int best = 0;
  int log = p_.tasks.lane_tasks_log;
  for (int round_log = log; round_log >= 0; --round_log) {
    p_.flat.round_log = round_log;
    const int blocks = std::min(BlocksThatShare(LayoutFor(kBlockWarps)), kMostFlatBlocks);
    if (blocks <= best) continue;
    best = blocks;
    log = round_log;
  }
  p_.flat.round_log = log;
  return LayoutFor(kBlockWarps);
}

void ColumnPlanner::SetFlat() {
  ColumnFlat& f = p_.flat;
  const int pitch = p_.strip;
  f.lane_vectors = Divisor::Of(pitch + 1);
  // Half a period of the banks more than whole ones.
  f.lane_pitch = RoundUp((pitch + 1) * vector_ - 4, 8) + 4;
  f.row_pitch = pitch + vector_;
  SetFlatThreads(pitch);
  f.walks = FlatWalks(pitch, flat_threads_);
  f.walkers = Divisor::Of(f.walks * pitch);
  f.lane_walks = FlatLaneWalks(pitch, flat_threads_);
  f.lane_walkers = Divisor::Of(f.lane_walks * (pitch + 1));
}

int ColumnPlanner::FlatPeriods() const {
  return std::max(1, (small_ ? SmallPartColumns() : ChunkColumns(bytes_)) / vector_);
}

int ColumnPlanner::FlatWalks(int pitch, int threads) const {
  return std::max(1, std::min(threads / (p_.step_parts * pitch), FlatPeriods()));
}

int ColumnPlanner::FlatLaneWalks(int pitch, int threads) const {
  return std::max(1, std::min(threads / (p_.step_parts * (pitch + 1)), FlatLanes()));
}

void ColumnPlanner::SetFlatThreads(int pitch) {
  const std::int64_t all_blocks = DivideUp(s_.outer, small_ ? p_.step_parts : 1) * strips_ * plan_.cluster_blocks;
  const auto blocks = static_cast<int>(
      std::min<std::int64_t>(BlocksThatShare(p_.stages * p_.stage_bytes + FlatLaneSumsBytes() + kReservedBytes),
                             DivideUp(all_blocks, device_.multiprocessors)));
  const int most = std::clamp(kFlatThreads / blocks / 32 * 32, kFewestFlatThreads, MostFlatThreads(plan_.mode));
  double best = 0;
  for (int threads = std::max(kFewestFlatThreads, most * 3 / 4 / 32 * 32); threads <= most; threads += 32) {
    // The share of them that work, on average, where each of `walks` takes some of `turns`.
    const auto busy = [&](int vectors, int walks, int turns) {
      const int all = p_.step_parts * vectors;
      const auto rounds = static_cast<double>(DivideUp(all * walks, threads) * DivideUp(turns, walks));
      return all * turns / (rounds * threads);
    };
    const double all = (busy(pitch, FlatWalks(pitch, threads), FlatPeriods()) +
                        busy(pitch + 1, FlatLaneWalks(pitch, threads), FlatLanes())) *
                       (2 * most + threads);
    if (all <= best) continue;
    best = all;
    flat_threads_ = threads;
  }
  if (choice_.threads > 0) flat_threads_ = std::min(choice_.threads, MostFlatThreads(plan_.mode));
}

}  // namespace softmax::kernels::cuda
