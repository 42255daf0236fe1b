#include "kernels/cuda/plan/batch.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cuda/check.h"
#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/rows/matrix.h"

namespace softmax::kernels::cuda {
namespace {

constexpr std::int64_t kMaxUnits = 1 << 14;  // beyond one for each segment
constexpr int kStaticBytes = 12 * 1024;      // of the kernels' shared memory, at most
// 1 MiB requests in host memory, eight streams, each way: 39 GB/s with 128 to 256 KiB on their way, 34 with 512, 31
// with all.
constexpr int kLinkBytes = 256 << 10;
constexpr int kLeastLinkBlocks = 8;
constexpr int kMostLinkBlocks = 32;
// How rows are run, in the order of the table: by their chunks, most first, then small ones by what their lanes hold.
constexpr int kSmallKinds = 11;
constexpr int kKinds = kBatchChunks + 1 + kSmallKinds;

// The lanes and vectors per lane of small rows of each kind.
struct SmallKind {
  std::uint8_t lanes;
  std::uint8_t slots;
};
constexpr SmallKind kSmall[kSmallKinds] = {{32, 8}, {32, 4}, {32, 2}, {16, 4}, {16, 2}, {8, 4},
                                           {8, 2},  {4, 4},  {4, 2},  {2, 2},  {1, 2}};

int KindOf(std::int64_t cols, int bytes) {
  if (cols > SmallColumns(bytes)) {
    return kBatchChunks - static_cast<int>(DivideUp(cols, ChunkColumns(bytes)));
  }
  const std::int64_t vectors = DivideUp(cols, VectorElements(bytes));
  const int lanes = RowLanes(cols, bytes);
  int kind = 0;
  while (kSmall[kind].lanes > lanes) ++kind;
  while (kind + 1 < kSmallKinds && kSmall[kind + 1].lanes == lanes && vectors <= kSmall[kind + 1].slots * lanes) ++kind;
  return kBatchChunks + 1 + kind;
}

// Small rows of two chunks go through shared memory as large ones do.
constexpr int kDoubleKind = kBatchChunks + 1;

bool IsSmall(int kind) { return kind > kDoubleKind; }
int ChunksOf(int kind) { return kind == kDoubleKind ? 2 : kBatchChunks - kind; }

constexpr int kLists = 2 * kBatchScales;  // of rows of one operation and scale, as all of a unit's are
constexpr int kBuckets = kKinds * kLists;

// Sorts and cuts one batch.
class Planner {
 public:
  Planner(DataType type, DataType output_type, const Device& device, Placement placement, BatchPlan* plan)
      : type_(type),
        bytes_(static_cast<int>(SizeOf(type))),
        output_bytes_(static_cast<int>(SizeOf(output_type))),
        device_(device),
        placement_(placement),
        most_unit_chunks_(BatchUnitChunks(device)),
        plan_(*plan) {}

  // Looks at every segment: whether the kernel takes it, and how many there are of each kind.
  bool Count(const Segment* segments, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Segment& s = segments[i];
      if (IsEmpty(s)) continue;
      if (!Takes(s)) return false;
      const int scale = ScaleIndex(s.scale);
      if (scale == kBatchScales) return false;
      const int kind = KindOf(s.cols, bytes_);
      ++counts_[Bucket(kind, s, scale)];
      Tally(kind, s);
    }
    return rows_ <= std::numeric_limits<std::uint32_t>::max();
  }

  // Sorts the segments into the table.
  void Fill(const Segment* segments, std::int64_t count, void* scratch) {
    BatchParams& p = plan_.params;
    table_ = p.inline_segments;
    extras_ = p.inline_extras;
    far_ = static_cast<std::byte*>(scratch);
    if (segments_ > kInlineBatchSegments) {
      if (all_single_) {
        p.singles = singles_ = TakeFar<BatchSingle>(segments_);
      } else {
        p.segments = table_ = TakeFar<BatchSegment>(segments_);
      }
    }
    if (extra_count_ > kInlineExtras) p.extras = extras_ = TakeFar<BatchExtra>(extra_count_);
    PlanSizes();
    std::uint32_t next = 0;
    for (std::uint32_t& bucket : counts_) {
      const std::uint32_t size = bucket;
      bucket = next;
      next += size;
    }
    extra_count_ = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const Segment& s = segments[i];
      if (IsEmpty(s)) continue;
      const std::uint32_t place = counts_[Bucket(KindOf(s.cols, bytes_), s, ScaleIndex(s.scale))]++;
      if (singles_ != nullptr) {
        singles_[place] = ToSingle(s);
      } else {
        table_[place] = ToBatchSegment(s);
      }
    }
  }

  // Cuts the sorted table into units. False: they are too many.
  bool Cut(bool has_scratch) {
    BatchParams& p = plan_.params;
    CutAll();
    units_ = p.inline_units;
    if (unit_count_ > kInlineUnits) {
      if (!has_scratch || unit_count_ > segments_ + kMaxUnits) return false;
      p.units = units_ = TakeFar<BatchUnit>(unit_count_);
    }
    p.cluster_units = cluster_units_;
    p.unit_count = unit_count_;
    CutAll();
    return true;
  }

  void PlanGrid() {
    BatchParams& p = plan_.params;
    const int resident = ResidentBlocks();
    const std::int64_t alone = p.unit_count - p.cluster_units;
    const std::int64_t wanted = std::max<std::int64_t>(alone, std::int64_t{p.cluster_units} * p.cluster_blocks);
    const auto clusters = static_cast<int>(std::min<std::int64_t>(wanted, resident) / p.cluster_blocks);
    plan_.blocks = std::max(1, clusters) * p.cluster_blocks;
    p.warp_pieces = most_pieces_;
    const bool has_more = alone > std::int64_t{OwnUnits(1)} * plan_.blocks ||
                          p.cluster_units > std::int64_t{OwnUnits(2)} * (plan_.blocks / p.cluster_blocks);
    p.taken = has_more && p.completion.workspace != nullptr ? p.completion.workspace + kWorkspaceTaken : nullptr;
    plan_.dynamic_bytes = kBlockWarps * most_pieces_ * kPieceVectors * kVectorBytes;
  }

 private:
  bool Takes(const Segment& s) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    if (s.inner != 1 || s.outer > kMost) return false;
    if (s.outer > 1 && (s.input_stride > kMost || s.output_stride > kMost)) return false;
    if (s.cols > std::int64_t{device_.clusters ? kBatchChunks : most_unit_chunks_} * ChunkColumns(bytes_)) return false;
    if (!AreAlike(s, bytes_, output_bytes_)) return false;
    plan_.skew = plan_.skew || reinterpret_cast<std::uintptr_t>(s.input) % kVectorBytes != 0 ||
                 (s.outer > 1 && s.input_stride * bytes_ % kVectorBytes != 0);
    return true;
  }

  // kBatchScales: there is no room for one more, or the kernels lack its arithmetic.
  int ScaleIndex(double scale) {
    for (int i = 0; i < scales_; ++i) {
      if (scale_[static_cast<std::size_t>(i)] == scale) return i;
    }
    if (scales_ == kBatchScales) return kBatchScales;
    BatchParams& p = plan_.params;
    p.scale_float[scales_] = ScaleParts<float>::Of(scale);
    p.scale_double[scales_] = ScaleParts<double>::Of(scale);
    if (type_ != DataType::kFloat64 && p.scale_float[scales_].fast == 0) return kBatchScales;
    scale_[static_cast<std::size_t>(scales_)] = scale;
    return scales_++;
  }

  static std::size_t Bucket(int kind, const Segment& s, int scale) {
    const int log = s.operation == Operation::kLogSoftmax ? 1 : 0;
    return static_cast<std::size_t>(kind * kLists + log * kBatchScales + scale);
  }

  void Tally(int kind, const Segment& s) {
    ++segments_;
    rows_ += s.outer;
    const bool needs_extra = NeedsExtra(s);
    extra_count_ += needs_extra ? 1 : 0;
    all_single_ = all_single_ && s.outer == 1 && !needs_extra && (Address(s.input) | Address(s.output)) <= kAddressMask;
    if (IsSmall(kind)) {
      const SmallKind small = kSmall[kind - kBatchChunks - 1];
      small_lanes_ += s.outer * small.lanes;
      step_bytes_ = std::min(step_bytes_, kBatchThreads * small.slots * kVectorBytes);
      return;
    }
    const int chunks = ChunksOf(kind);
    widest_ = std::max(widest_, chunks);
    if (chunks > most_unit_chunks_) return;
    alone_chunks_ += s.outer * chunks;
    alone_rows_[static_cast<std::size_t>(chunks)] += s.outer;
  }

  static bool NeedsExtra(const Segment& s) {
    return s.lengths != nullptr || (s.outer > 1 && (s.input_stride != s.cols || s.output_stride != s.cols));
  }

  BatchSegment ToBatchSegment(const Segment& s) {
    BatchSegment b;
    b.input = s.input;
    b.output = s.output;
    b.cols = static_cast<std::uint32_t>(s.cols);
    b.rows = static_cast<std::uint32_t>(s.outer);
    b.first_row = 0;
    b.extra = 0;
    if (NeedsExtra(s)) {
      const bool one = s.outer == 1;
      extras_[extra_count_++] = {s.lengths, one ? 0 : static_cast<std::uint32_t>(s.input_stride),
                                 one ? 0 : static_cast<std::uint32_t>(s.output_stride)};
      b.extra = extra_count_;
    }
    return b;
  }

  static std::uint64_t Address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

  static BatchSingle ToSingle(const Segment& s) {
    const auto cols = static_cast<std::uint64_t>(s.cols);
    return {Address(s.input) | cols << kAddressBits, Address(s.output) | cols >> 16 << kAddressBits};
  }

  // Part of the scratch.
  template <typename T>
  T* TakeFar(std::uint32_t count) {
    T* const taken = reinterpret_cast<T*>(far_);
    far_ += count * sizeof(T);
    return taken;
  }

  int ResidentBlocks() const {
    const int by_memory = device_.shared_bytes / (most_unit_chunks_ * kPieceVectors * kVectorBytes + kStaticBytes / 2);
    const int resident =
        device_.multiprocessors * std::clamp(by_memory, 1, BatchBlocks(bytes_, plan_.params.output_type != type_));
    return placement_ == Placement::kSharedHost ? std::min(resident, LinkBlocks()) : resident;
  }

  // Blocks that together have on their way what the link needs. Those of other launches have as much.
  int LinkBlocks() const { return std::clamp(kLinkBytes / step_bytes_, kLeastLinkBlocks, kMostLinkBlocks); }

  // Units as small as gives every block one, and otherwise as large as a block holds.
  void PlanSizes() {
    const int resident = ResidentBlocks();
    const std::int64_t small_steps = DivideUp(small_lanes_, kBatchThreads);
    small_steps_each_ = static_cast<int>(std::clamp<std::int64_t>(DivideUp(small_steps, resident), 1, 8));
    const std::int64_t small_units = DivideUp(small_steps, small_steps_each_);
    unit_chunks_ =
        static_cast<int>(std::clamp<std::int64_t>(DivideUp(alone_chunks_, resident), kBlockWarps, most_unit_chunks_));
    // Rows are not divided: units a little larger may be what keeps a few blocks from a second one.
    for (int chunks = unit_chunks_; chunks <= most_unit_chunks_; ++chunks) {
      if (small_units + AloneUnits(chunks) > resident) continue;
      unit_chunks_ = chunks;
      break;
    }
    BatchParams& p = plan_.params;
    p.cluster_blocks = 1;
    while (p.cluster_blocks * most_unit_chunks_ < widest_) p.cluster_blocks *= 2;
  }

  // Units of large rows that take no cluster, at least.
  std::int64_t AloneUnits(int unit_chunks) const {
    std::int64_t units = 0;
    for (int chunks = 1; chunks <= most_unit_chunks_; ++chunks) {
      units += DivideUp(alone_rows_[static_cast<std::size_t>(chunks)], std::max(1, unit_chunks / chunks));
    }
    return units;
  }

  // Walks the sorted table: counts the units and, once they have a place, writes them.
  void CutAll() {
    unit_count_ = 0;
    cluster_units_ = 0;
    most_pieces_ = 0;
    std::uint32_t row = 0;
    std::uint32_t at = 0;
    std::size_t bucket = 0;
    while (at < segments_) {
      while (counts_[bucket] <= at) ++bucket;  // counts_ are the buckets' ends now
      CutBucket(static_cast<int>(bucket), at, counts_[bucket], &row);
      at = counts_[bucket];
    }
  }

  void CutBucket(int bucket, std::uint32_t begin, std::uint32_t end, std::uint32_t* first_row) {
    const int kind = bucket / (2 * kBatchScales);
    BatchUnit unit = {};
    unit.scale = static_cast<std::uint8_t>(bucket % kBatchScales);
    unit.log = static_cast<std::uint8_t>(bucket / kBatchScales % 2);
    const int most_rows = MostRows(kind, &unit);
    std::uint32_t row = *first_row;
    const auto close = [&](std::uint32_t next_segment) {
      if (unit.rows > 0) Add(unit, kind);
      unit.first_segment = next_segment;
      unit.first_row = row;
      unit.rows = 0;
      unit.segments = 0;
    };
    close(begin);
    if (singles_ != nullptr) {
      const auto most = static_cast<std::uint32_t>(std::min(most_rows, kUnitSingles));
      for (std::uint32_t i = begin; i < end; i += most) {
        unit.first_segment = i;
        unit.first_row = row + i - begin;
        unit.rows = static_cast<std::uint16_t>(std::min(end - i, most));
        unit.segments = static_cast<std::uint8_t>(unit.rows);
        Add(unit, kind);
      }
      *first_row = row + end - begin;
      return;
    }
    for (std::uint32_t i = begin; i < end; ++i) {
      table_[i].first_row = row;
      std::uint32_t left = table_[i].rows;
      if (unit.segments == kUnitSegments) close(i);
      while (left > 0) {
        if (unit.rows == most_rows) close(i);
        if (unit.segments == 0 || unit.first_segment + unit.segments <= i) ++unit.segments;
        const std::uint32_t taken = std::min(left, static_cast<std::uint32_t>(most_rows - unit.rows));
        unit.rows = static_cast<std::uint16_t>(unit.rows + taken);
        row += taken;
        left -= taken;
      }
    }
    close(end);
    *first_row = row;
  }

  // Of one unit; says in it how they are run.
  int MostRows(int kind, BatchUnit* unit) const {
    if (IsSmall(kind)) {
      const SmallKind small = kSmall[kind - kBatchChunks - 1];
      unit->lanes = small.lanes;
      unit->slots = small.slots;
      return kBatchThreads / small.lanes * small_steps_each_;
    }
    if (kind == kDoubleKind) {
      unit->lanes = 32;
      unit->slots = 2 * kChunkSlots;
      // A warp holds its rows whole.
      const int most = most_unit_chunks_ / (2 * kBlockWarps) * kBlockWarps;
      return std::clamp(unit_chunks_ / 2, 1, std::max(1, most));
    }
    return std::max(1, unit_chunks_ / ChunksOf(kind));
  }

  void Add(const BatchUnit& unit, int kind) {
    if (units_ != nullptr) units_[unit_count_] = unit;
    ++unit_count_;
    if (IsSmall(kind)) return;
    const int chunks = ChunksOf(kind);
    cluster_units_ += chunks > most_unit_chunks_ ? 1 : 0;
    // Of large rows the warps share all pieces, of double ones the rows.
    const std::int64_t pieces = kind == kDoubleKind
                                    ? DivideUp(unit.rows, kBlockWarps) * chunks
                                    : DivideUp(std::min(chunks * unit.rows, most_unit_chunks_), kBlockWarps);
    most_pieces_ = std::max(most_pieces_, static_cast<int>(pieces));
  }

  const DataType type_;
  const int bytes_;
  const int output_bytes_;
  const Device& device_;
  const Placement placement_;
  const int most_unit_chunks_;
  BatchPlan& plan_;

  // Of all segments.
  std::array<std::uint32_t, kBuckets> counts_ = {};
  std::array<double, kBatchScales> scale_ = {};
  int scales_ = 0;
  std::uint32_t segments_ = 0;
  std::uint32_t extra_count_ = 0;
  bool all_single_ = true;  // dense rows without lengths
  std::int64_t rows_ = 0;
  std::int64_t small_lanes_ = 0;                               // that small rows take
  std::int64_t alone_chunks_ = 0;                              // of large rows that take no cluster
  std::array<std::int64_t, kUnitChunks + 1> alone_rows_ = {};  // the same rows, by their chunks
  int widest_ = 0;                                             // row, in chunks
  int step_bytes_ = kLinkBytes / kLeastLinkBlocks;  // that a block has on their way, of the rows with the fewest

  // Of the units.
  BatchSegment* table_ = nullptr;
  BatchSingle* singles_ = nullptr;  // if not nullptr, what there is instead
  BatchExtra* extras_ = nullptr;
  BatchUnit* units_ = nullptr;  // nullptr: they are being counted
  std::byte* far_ = nullptr;    // what is left of the scratch
  std::uint32_t unit_count_ = 0;
  std::uint32_t cluster_units_ = 0;
  int unit_chunks_ = 0;
  int small_steps_each_ = 0;
  int most_pieces_ = 0;  // of a unit, for a warp
};

}  // namespace

int BatchUnitChunks(const Device& device) {
  const int room = device.shared_bytes - kStaticBytes;
  return std::min(kUnitChunks, room / (kBlockWarps * kPieceVectors * kVectorBytes) * kBlockWarps);
}

std::size_t BatchScratchBytes(std::int64_t segments, std::int64_t rows) {
  if (segments <= kInlineExtras && rows <= kInlineUnits) return 0;
  const auto units = static_cast<std::size_t>(segments + std::min(rows, kMaxUnits));
  return static_cast<std::size_t>(segments) * (sizeof(BatchSegment) + sizeof(BatchExtra)) + units * sizeof(BatchUnit);
}

void PlanBatch(DataType type, DataType output_type, const Segment* segments, std::int64_t count, void* scratch,
               const Completion& completion, const Device& device, Placement placement, BatchPlan* plan) {
  plan->params.segments = nullptr;
  plan->params.singles = nullptr;
  plan->params.extras = nullptr;
  plan->params.units = nullptr;
  plan->params.completion = completion;
  plan->params.output_type = output_type;
  plan->params.output_bytes = static_cast<int>(SizeOf(output_type));
  Planner planner(type, output_type, device, placement, plan);
  if (!planner.Count(segments, count)) return;
  planner.Fill(segments, count, scratch);
  if (!planner.Cut(scratch != nullptr)) return;
  planner.PlanGrid();
  plan->possible = true;
}

}  // namespace softmax::kernels::cuda
