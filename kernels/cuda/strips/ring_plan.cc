#include "kernels/cuda/columns/planner.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/strips/ring.h"

namespace softmax::kernels::cuda {
namespace {

// Whether the largest clusters have few idle blocks with rows of so many chunks, and each has no more of a narrow strip
// than lets three share a multiprocessor.
bool FillCluster(std::int64_t chunks, int bytes, const Device& device) {
  const int each = bytes == 4 ? 2 : 1;
  const std::int64_t most = std::int64_t{each} * device.cluster_blocks;
  return chunks <= most && 8 * chunks >= (bytes == 4 ? 7 : 8) * most;
}

}  // namespace

// Whether rings are faster than clusters that hold a strip, as measured on an H200: of fewer units, blocks have nothing
// to do while they wait, and narrower outer blocks leave most of a place empty. With slower memory, clusters that are
// full are faster: more strips side by side are on their way.
bool ColumnPlanner::RingIsFast() const {
  constexpr std::int64_t kMostClusterColumns = 8192;
  if (s_.cols <= kMostClusterColumns || s_.inner * bytes_ < kRingStripBytes) return false;
  if (plan_.vectors && !device_.fast_memory && FillCluster(chunks_, bytes_, device_)) return false;
  return s_.outer * DivideUp(s_.inner, kRingStripBytes / bytes_) * chunks_ >= device_.multiprocessors;
}

// Whether wide strips are faster, as measured on an H100. They ask the L2 for whole lines, but half as many are on
// their way: so they have to be nearly full, and fp32 blocks to share several at a time, or to be far from it. Of 16
// bits there is not even a second one on its way, which only strips that miss the sectors of memory make up for.
bool ColumnPlanner::IsWideRing(int of_block) const {
  constexpr ColumnRingForm kWide = {true, false};
  if (of_block * ColumnRingUnitPlaces(bytes_) > kWide.Places()) return false;
  const std::int64_t strips = DivideUp(s_.inner * bytes_, kWideStripBytes);
  const bool fill = 8 * s_.inner * bytes_ >= 7 * strips * kWideStripBytes;
  if (!fill || s_.outer * strips * chunks_ < device_.multiprocessors) return false;
  if (!plan_.vectors) return true;
  if (bytes_ == 2) return s_.inner * bytes_ % kMinStripBytes != 0;
  return 2 * chunks_ <= device_.multiprocessors || 2 * chunks_ > 3 * std::int64_t{device_.multiprocessors};
}

bool ColumnPlanner::PlanRing() {
  const bool suits = device_.clusters && bytes_ < 8 && !p_.grouped && s_.lengths == nullptr;
  const bool has_words = bytes_ == 4 || plan_.vectors || plan_.pairs;
  if (!suits || !has_words || p_.completion.workspace == nullptr || device_.shared_bytes < kColumnRingBytes) {
    return false;
  }
  // A block has places for its units of a strip. With more than this two passes are faster: few strips would be on
  // their way at a time.
  constexpr int kMostUnits = 2;
  const auto of_block = static_cast<int>(DivideUp(chunks_, device_.multiprocessors));
  if (of_block > kMostUnits) return false;
  const ColumnRingForm form = {IsWideRing(of_block), !plan_.vectors};
  constexpr std::int64_t kTableBytes = std::int64_t{kSoftmaxWorkspaceBytes} - kWorkspaceTable * 4;
  constexpr std::int64_t kEntryBytes = 16;
  const std::int64_t strips = DivideUp(s_.inner, form.Width(bytes_));
  const std::int64_t table_rows = kTableBytes / (kEntryBytes * ColumnRingEntries(form.Width(bytes_), p_.chunks));
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
  plan_.ring_wide = form.wide;
  plan_.ring_words = form.words;
  plan_.threads = form.Threads(bytes_);
  plan_.cluster_blocks = 1;
  plan_.dynamic_bytes = kColumnRingBytes;
  plan_.blocks = std::min<std::int64_t>(device_.multiprocessors, units);

  plan_.ring = plan_.possible = true;
  return true;
}

}  // namespace softmax::kernels::cuda
