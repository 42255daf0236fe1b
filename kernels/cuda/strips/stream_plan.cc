#include <array>
#include <atomic>

#include "kernels/cuda/columns/planner.h"

// The blocks of strips/stream.cuh, strips/pairs.cuh and columns/split.cuh.
namespace softmax::kernels::cuda {
namespace {

// Clusters of so many blocks that the device holds at a time, one block a multiprocessor. Asked once: all devices of a
// process are taken to be alike, and if they are not, some are slower.
int ClustersHeld(const void* kernel, int cluster_blocks, int bytes, const Device& device) {
  static std::array<std::atomic<int>, kLargeClusterBlocks + 1> known;
  int held = known[static_cast<std::size_t>(cluster_blocks)].load(std::memory_order_relaxed);
  if (held > 0) return held;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster_blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(cluster_blocks));
  config.blockDim = dim3(kStreamThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (cudaOccupancyMaxActiveClusters(&held, kernel, &config) != cudaSuccess || held < 1) {
    static_cast<void>(cudaGetLastError());
    return std::max(1, device.multiprocessors / cluster_blocks);
  }
  known[static_cast<std::size_t>(cluster_blocks)].store(held, std::memory_order_relaxed);
  return held;
}

constexpr int kFewestStrips = 3;    // of a block: the first one's copies and the last one's results have no company
constexpr int kLeastColumns = 513;  // of fewer a block would have too few bytes on their way

}  // namespace

bool ColumnPlanner::StreamSuits() const {
  const bool suits = device_.clusters && bytes_ < 8 && !plan_.vectors && s_.lengths == nullptr && !p_.grouped;
  if (!suits || s_.cols < kLeastColumns) return false;
  const int width = bytes_ == 2 ? kPairsWidth : kStreamWidth;
  if (s_.inner < 2 * width || s_.inner > std::numeric_limits<std::int32_t>::max() / 64) return false;
  if (bytes_ == 2 && !HasWords()) return false;
  const std::int64_t sharers = DivideUp(s_.cols, kStreamColumns);
  if (sharers == 1) return true;
  // Blocks that share rows have to be about full, and log-softmax of 32 bits is slower in them than element by element.
  const bool is_full = sharers <= device_.cluster_blocks && 4 * s_.cols >= 3 * sharers * kStreamColumns;
  return is_full && (bytes_ == 2 || s_.operation == Operation::kSoftmax);
}

// Whether the words of the output are those of the input.
bool ColumnPlanner::HasWords() const {
  const auto past = reinterpret_cast<std::uintptr_t>(s_.input) ^ reinterpret_cast<std::uintptr_t>(s_.output);
  return past % 4 == 0 && (p_.segment.input_stride - p_.segment.output_stride) % 2 == 0;
}

// Strips as wide as a block's registers allow, less what a sector may have of two. Where columns begin `alignment`
// bytes apart, or a multiple of that, sectors are met at as many places.
void ColumnPlanner::SetOverlap() {
  const auto output = reinterpret_cast<std::uintptr_t>(s_.output);
  const auto lies = [this](std::int64_t elements, int bytes) { return elements % bytes * bytes_ % bytes == 0; };
  int alignment = kSectorBytes;
  while (output % static_cast<unsigned>(alignment) != 0 || !lies(s_.inner, alignment) ||
         !lies(p_.segment.output_stride, alignment)) {
    alignment /= 2;
  }
  // Where words begin with odd rows, the last row has none.
  p_.read_width = bytes_ == 4 ? kStreamWidth : alignment < 4 ? kPairsWidth - 1 : kPairsWidth;
  const int most = p_.read_width - (kSectorBytes - alignment) / bytes_;
  p_.strip = RoundUp(static_cast<int>(DivideUp(s_.inner, DivideUp(s_.inner, most))), alignment / bytes_);
  strips_ = DivideUp(s_.inner, p_.strip);
  p_.strips = static_cast<std::int32_t>(strips_);
}

// Whether the output may have bytes of the input: strips that overlap read what others write.
bool ColumnPlanner::IsInPlace() const {
  const auto input = reinterpret_cast<std::uintptr_t>(s_.input);
  const auto output = reinterpret_cast<std::uintptr_t>(s_.output);
  const auto bytes = [this](std::int64_t stride) {
    return static_cast<std::uintptr_t>(((s_.outer - 1) * stride + s_.cols * s_.inner) * bytes_);
  };
  return input < output + bytes(p_.segment.output_stride) && output < input + bytes(p_.segment.input_stride);
}

// Not if there are so few blocks that narrower strips would keep more multiprocessors busy.
bool ColumnPlanner::FitSplit(std::int64_t strip_bytes) {
  if (!device_.clusters || RowLanes(s_.cols, bytes_) < kSplitBlocks) return false;
  plan_.cluster_blocks = kSplitBlocks;
  p_.table_entries = 2 * kSplitBlocks;
  if (FitSmall(strip_bytes, Share(3)) && plan_.blocks >= 2 * std::int64_t{device_.multiprocessors}) {
    p_.line_vectors = Divisor::Of(p_.strip * bytes_ / kVectorBytes);
    if (IsEarly()) return true;
  }
  plan_.cluster_blocks = 1;
  p_.table_entries = 0;
  return false;
}

// Wide strips that overlap by what lets each of them write whole sectors: those that two blocks write in part take the
// L2 longest. Whole rows if they fit, of 16-bit elements, with which that was measured, and split ones if they do not.
bool ColumnPlanner::FitOverlap() {
  if (bytes_ == 8 || s_.inner * bytes_ < 2 * kLargeStripBytes || IsInPlace()) return false;
  overlap_ = kSectorBytes / 2 / bytes_;
  const bool is_whole = FitSmall(kLargeStripBytes, Share(3));
  if (is_whole ? bytes_ == 2 && plan_.blocks >= ManyBlocks() : FitSplit(kLargeStripBytes)) return true;
  overlap_ = 0;
  return false;
}

bool ColumnPlanner::PlanStream() {
  if (!StreamSuits() || IsInPlace()) return false;
  SetOverlap();
  const std::int64_t strips = s_.outer * strips_;
  const auto sharers = static_cast<int>(DivideUp(s_.cols, kStreamColumns));
  const int columns = sharers == 1 ? static_cast<int>(s_.cols) : kStreamColumns;
  const int table_bytes = sharers == 1 ? 0 : p_.chunks * StreamTableBytes(bytes_);
  const int bytes = kStreamBytes + columns * kStreamPitch + table_bytes;
  if (bytes > device_.shared_bytes || strips > std::numeric_limits<std::int32_t>::max() / 2) return false;
  const DataType type = bytes_ == 2 ? DataType::kBFloat16 : DataType::kFloat32;  // fp16 is like bf16
  const void* const kernel = StreamKernelsFor(type).kernels[1][p_.segment.log];
  const int groups = sharers == 1 ? device_.multiprocessors : ClustersHeld(kernel, sharers, bytes, device_);
  if (strips < std::int64_t{kFewestStrips} * groups) return false;
  plan_.cluster_blocks = sharers;
  p_.cluster_blocks = sharers;
  plan_.blocks = std::int64_t{groups} * sharers;
  plan_.threads = kStreamThreads;
  plan_.dynamic_bytes = bytes;
  plan_.stream = plan_.possible = true;
  return true;
}

}  // namespace softmax::kernels::cuda
