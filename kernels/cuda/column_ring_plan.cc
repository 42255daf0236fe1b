#include "kernels/cuda/column_planner.h"
#include "kernels/cuda/column_ring.h"
#include "kernels/cuda/matrix.h"

namespace softmax::kernels::cuda {

// Whether rings are faster than clusters that hold a strip, as measured on an H200: of fewer units, blocks have nothing
// to do while they wait, and narrower outer blocks leave most of a place empty.
bool ColumnPlanner::RingIsFast() const {
  constexpr std::int64_t kMostClusterColumns = 8192;
  if (s_.cols <= kMostClusterColumns || s_.inner * bytes_ < kPassStripBytes) return false;
  return s_.outer * DivideUp(s_.inner, ColumnRingWidth(bytes_)) * chunks_ >= device_.multiprocessors;
}

bool ColumnPlanner::PlanRing() {
  const bool suits = device_.clusters && bytes_ < 8 && plan_.vectors && !p_.grouped && s_.lengths == nullptr;
  if (!suits || p_.completion.workspace == nullptr || device_.shared_bytes < kColumnRingBytes) return false;
  // A block has places for its units of a strip. With more of fp32 than this two passes are faster: few strips would be
  // on their way at a time.
  constexpr std::int64_t kMostFloatUnits = 2;
  const std::int64_t of_block = DivideUp(chunks_, device_.multiprocessors);
  if (of_block * ColumnRingUnitPlaces(bytes_) > kColumnRingPlaces) return false;
  if (bytes_ == 4 && of_block > kMostFloatUnits) return false;
  constexpr std::int64_t kTableBytes = std::int64_t{kSoftmaxWorkspaceBytes} - kWorkspaceTable * 4;
  constexpr std::int64_t kEntryBytes = 16;
  const std::int64_t strips = DivideUp(s_.inner, ColumnRingWidth(bytes_));
  const std::int64_t table_rows = kTableBytes / (kEntryBytes * ColumnRingEntries(p_.chunks, bytes_));
  const std::int64_t units = s_.outer * strips * chunks_;
  if (table_rows < 2 || units > std::numeric_limits<std::int32_t>::max() / 2) return false;
  ColumnRingParams& r = plan_.ring_params;
  r = {};
  r.segment = p_.segment;
  r.scale = p_.scale_float;
  r.log_pre = p_.log_pre;
  r.log_factor = p_.log_factor;
  r.completion = p_.completion;
  r.rows = s_.outer * strips;
  r.table_rows = static_cast<std::int32_t>(std::min({r.rows, table_rows, std::int64_t{kMaxTableRows}}));
  r.row_blocks = p_.chunks;
  r.strips = static_cast<std::int32_t>(strips);
  r.chunks = p_.chunks;
  plan_.threads = ColumnRingThreads(bytes_);
  plan_.cluster_blocks = 1;
  plan_.dynamic_bytes = kColumnRingBytes;
  plan_.blocks = std::min<std::int64_t>(device_.multiprocessors, units);
  plan_.ring = plan_.possible = true;
  return true;
}

}  // namespace softmax::kernels::cuda
