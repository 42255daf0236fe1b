#include "kernels/cuda/plan/columns.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/core/divisor.h"

namespace softmax::kernels::cuda {
namespace {

constexpr int kMinStripBytes = 32;  // one sector
constexpr int kStripBytes = 64;
constexpr int kLargeStripBytes = 128;
constexpr int kWidestStripBytes = 256;
constexpr int kOuterTileBytes = 48 * 1024;   // of several outer blocks, about
constexpr int kBlocksPerMultiprocessor = 6;  // at least, where there is a choice
constexpr int kMostStages = 8;               // see WaitCopies
constexpr int kFewStages = 3;
constexpr int kStepTasks = 16;  // keep every warp busy
// What a multiprocessor's shared memory is shared by: blocks, each with what CUDA reserves.
constexpr int kReservedBytes = 2048;

int RoundUp(int value, int unit) { return (value + unit - 1) / unit * unit; }

int Log2(int power) {
  int log = 0;
  while ((2 << log) <= power) ++log;
  return log;
}
// Threads side by side over so many units: a power of two that leaves few of them idle.
int SideOf(int units, int most) {
  int side = most;
  while (side > 1 && RoundUp(units, side) * 4 > units * 5) side /= 2;
  return side;
}
// The largest power of two that divides a value, up to `most`.
int PowerOfTwoIn(int value, int most) {
  int power = 1;
  while (power < most && value % (power * 2) == 0) power *= 2;
  return power;
}

// Plans one launch for the columns of a segment.
class ColumnPlanner {
 public:
  ColumnPlanner(DataType type, DataType output_type, const Segment& s, const Completion& completion,
                const Device& device)
      : s_(s),
        device_(device),
        p_(plan_.params),
        bytes_(static_cast<int>(SizeOf(type))),
        output_bytes_(static_cast<int>(SizeOf(output_type))),
        stats_bytes_(type == DataType::kFloat64 ? 16 : 8),
        vector_(VectorElements(bytes_)),
        chunks_(DivideUp(s.cols, ChunkColumns(bytes_))) {
    p_ = {};
    p_.scale_double = ScaleParts<double>::Of(s.scale);
    p_.scale_float = ScaleParts<float>::Of(s.scale);
    p_.log_pre = p_.scale_float.pre;
    p_.log_factor = LogFactor(p_.scale_float);
    p_.completion = completion;
    p_.output_type = output_type;
    p_.output_bytes = output_bytes_;
    plan_.mixed = output_type != type;
    small_ = s.cols <= SmallColumns(bytes_);
    p_.grouped = chunks_ > kFlatChunks;
    p_.chunks = static_cast<std::int32_t>(chunks_);
    p_.table_entries = 0;
    FillSegment();
    FindAlignment();
    // The kernel has the fast form of the exponential only.
    suits_ = s.inner > 1 && chunks_ < std::numeric_limits<std::int32_t>::max() &&
             (type == DataType::kFloat64 || p_.scale_float.fast != 0);
  }

  int Threads() const {
    const bool many = plan_.mode == ColumnMode::kSteps || plan_.dynamic_bytes > Share(3);
    return many ? MostColumnThreads(plan_.mode, bytes_) : kBlockThreads;
  }
  ColumnPlan Make() {
    if (!suits_) return plan_;
    if (PlanFew()) return plan_;
    plan_.possible = small_ ? PlanSmall() : PlanLarge();
    if (plan_.blocks > std::numeric_limits<int>::max()) plan_.possible = false;
    if (!plan_.possible) return plan_;
    p_.cluster_log = Log2(plan_.cluster_blocks);
    p_.units = Divisor::Of(p_.strip / unit_);
    const int wide = p_.strip * bytes_;
    p_.line_vectors = Divisor::Of(plan_.vectors ? wide / kVectorBytes : (wide + 2 * kVectorBytes - 2) / kVectorBytes);
    p_.rows = Divisor::Of(p_.strip);
    plan_.threads = Threads();
    p_.part_columns = Divisor::Of(small_ ? static_cast<int>(s_.cols) : ChunkColumns(bytes_));
    return plan_;
  }

 private:
  void FillSegment() {
    DeviceSegment& d = p_.segment;
    d.input = s_.input;
    d.output = s_.output;
    d.lengths = s_.lengths;
    d.outer = s_.outer;
    d.cols = s_.cols;
    d.inner = s_.inner;
    d.input_stride = s_.outer == 1 ? s_.cols * s_.inner : s_.input_stride;
    d.output_stride = s_.outer == 1 ? s_.cols * s_.inner : s_.output_stride;
    d.scale = s_.scale;
    d.log = s_.operation == Operation::kLogSoftmax ? 1 : 0;
  }
  // Whether units of so many bytes, which are up to 16, lie on boundaries of as many in the input. Their results, which
  // are accesses of 16 bytes at most, lie as well then.
  bool Lies(int unit_bytes) const {
    const DeviceSegment& d = p_.segment;
    const std::int64_t elements = unit_bytes / bytes_;
    const auto stored = std::min<std::uintptr_t>(static_cast<std::uintptr_t>(elements * output_bytes_), kVectorBytes);
    return reinterpret_cast<std::uintptr_t>(s_.input) % static_cast<unsigned>(unit_bytes) == 0 &&
           reinterpret_cast<std::uintptr_t>(s_.output) % stored == 0 && d.inner % elements == 0 &&
           d.input_stride % elements == 0 && d.output_stride % elements == 0;
  }
  void FindAlignment() {
    const DeviceSegment& d = p_.segment;
    p_.dense = d.input_stride == d.cols * d.inner && d.output_stride == d.input_stride;
    plan_.vectors = Lies(kVectorBytes);
    unit_ = plan_.vectors ? vector_ : 1;
  }

  // Shared memory that lets so many blocks stay on a multiprocessor.
  int Share(int blocks) const { return (device_.shared_bytes + kReservedBytes) / blocks - kReservedBytes; }

  // `wanted` elements at most, in strips of about the same width, whole sectors where the rows allow it.
  int Strip(std::int64_t wanted) const {
    wanted = std::min<std::int64_t>({wanted, s_.inner, kMaxStripWidth});
    const std::int64_t units = s_.inner / unit_;
    const std::int64_t most = std::max<std::int64_t>(1, wanted / unit_);
    const std::int64_t even = DivideUp(units, DivideUp(units, most));
    // Powers of two give the warps rows of threads side by side: worth a narrow last strip if there are many.
    return static_cast<int>((units >= 8 * most ? most : even) * unit_);
  }
  void SetStrip(int strip) {
    p_.strip = strip;
    strips_ = DivideUp(s_.inner, strip);
    p_.strips = static_cast<std::int32_t>(std::min<std::int64_t>(strips_, std::numeric_limits<std::int32_t>::max()));
    p_.pitch = Pitch();
  }
  // From one column to the next in shared memory: as memory has it where the strip is everything, and otherwise so that
  // columns lie in shared memory as they do in memory relative to 16-byte boundaries, with room for what is beside
  // them.
  int Pitch() const {
    const int wide = p_.strip * bytes_;
    const auto past = static_cast<int>(s_.inner * bytes_ % kVectorBytes);
    if (p_.strips == 1 || plan_.vectors) return wide;
    if (past == 0) return RoundUp(wide, kVectorBytes) + kVectorBytes;
    const int least = wide + 2 * kVectorBytes - 2 * bytes_;
    return RoundUp(least - past, kVectorBytes) + past;
  }

  void SetTasks(int lanes, int parts) {
    ColumnTasks& t = p_.tasks;
    const int units = p_.strip / (plan_.vectors ? ColumnReduced(bytes_) : unit_);
    const int side = SideOf(units, plan_.vectors ? 128 / (ColumnReduced(bytes_) * bytes_) : 8);
    const int warp_lanes = std::min(lanes, 32 / side);
    t.lanes = lanes;
    t.side_log = Log2(side);
    t.warp_lanes_log = Log2(warp_lanes);
    t.lane_tasks_log = Log2(lanes / warp_lanes);
    t.warp_parts_log = Log2(32 / (side * warp_lanes));
    t.groups = Divisor::Of(static_cast<int>(DivideUp(units, side)));
    // Neighbouring lanes of a warp read from addresses this far apart; after so many they come to the same bank.
    const int stride = (lanes / warp_lanes) * vector_ * p_.pitch;
    t.spread_shift = Log2(128 / PowerOfTwoIn(stride, 128));
    t.spread_scale = p_.pitch % 4 == 0 ? 0 : 1;
    p_.step_parts = parts;
  }

  // Offsets in shared memory behind the tile; returns all bytes.
  int Layout() {
    const int rows = (small_ ? p_.step_parts : 1) * p_.strip;
    const int part_rows = p_.step_parts * p_.strip;
    const int task_rows = part_rows << p_.tasks.lane_tasks_log;
    const int compute_bytes = stats_bytes_ / 2;
    int offset = p_.stages * p_.stage_bytes;
    const auto take = [&offset](int bytes) {
      const int at = RoundUp(offset, kVectorBytes);
      offset = at + bytes;
      return at;
    };
    p_.rows_offset = take(rows * kStripRowBytes);
    p_.terms_offset = take(rows * kStripTermBytes);
    // Between steps the sums of floats are doubles, too.
    const int entry_bytes = plan_.mode == ColumnMode::kSteps ? 16 : stats_bytes_;
    p_.table_offset = take(p_.table_entries * p_.strip * entry_bytes);
    p_.maxima_offset = take(part_rows * compute_bytes);
    p_.task_maxima_offset = take(task_rows * compute_bytes);
    p_.sums_offset = take(task_rows * static_cast<int>(sizeof(double)));
    return RoundUp(offset, kVectorBytes);
  }

  // Few columns: a thread for each unit.

  bool PlanFew() {
    const bool is_usual = !plan_.mixed || (bytes_ == 2 && p_.output_type == DataType::kFloat32) ||
                          (bytes_ == 4 && output_bytes_ == 2);  // as ForUsualOutput() has them
    if (bytes_ == 8 || !is_usual || s_.lengths != nullptr || s_.inner * bytes_ < kMinStripBytes) return false;
    int few = 0;
    while (few < kFewSizes && s_.cols > kFewColumns[few]) ++few;
    if (few == kFewSizes || bytes_ > FewUnitBytes(kFewColumns[few], bytes_)) return false;
    const int unit_bytes = FewUnitBytes(kFewColumns[few], bytes_);
    const bool wide = Lies(unit_bytes);
    if (kFewColumns[few] > 32 && !wide) return false;
    const std::int64_t units = s_.inner / (wide ? unit_bytes / bytes_ : 1);
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kBlockThreads;
    if (units > kMost || s_.outer > kMost / units) return false;
    p_.strips = static_cast<std::int32_t>(units);
    plan_.few = few;
    plan_.vectors = wide;
    plan_.threads = kFewThreads;
    plan_.blocks = DivideUp(s_.outer * units, plan_.threads);
    plan_.possible = true;
    return true;
  }

  // Small rows: whole ones, of several outer blocks where a strip is everything.

  bool PlanSmall() {
    plan_.mode = ColumnMode::kSmall;
    const std::int64_t wide = s_.inner * bytes_;
    // A strip that is everything comes in one piece. Few of them are better cut.
    const bool spare = s_.outer < device_.multiprocessors && s_.cols * wide > kOuterTileBytes / 4;
    if (s_.inner <= kMaxStripWidth && !spare && (FitSmall(wide, Share(3)) || FitSmall(wide, Share(2)))) return true;
    // Where columns of whole vectors miss the sectors of memory, smaller strips are faster, as was measured.
    const int blocks = plan_.vectors && wide % kMinStripBytes != 0 ? 6 : 3;
    for (int strip = kWidestStripBytes; strip > kStripBytes; strip /= 2) {
      if (strip < 2 * wide && FitSmall(strip, Share(blocks)) && plan_.blocks >= ManyBlocks()) return true;
    }
    if (blocks > 3) {
      if (FitSmall(kStripBytes, Share(blocks)) || FitSmall(kMinStripBytes, Share(blocks))) return true;
    }
    if (FitSmall(kStripBytes, Share(3)) || FitSmall(kStripBytes, Share(2))) return true;
    for (int strip = kMinStripBytes; strip >= unit_ * bytes_; strip /= 2) {
      if (FitSmall(strip, Share(3)) || FitSmall(strip, Share(1))) return true;
    }
    return false;
  }
  bool FitSmall(std::int64_t strip_bytes, int room) {
    const auto cols = static_cast<int>(s_.cols);
    SetStrip(Strip(std::max<std::int64_t>(strip_bytes / bytes_, unit_)));
    p_.stages = 1;
    for (int parts = SmallParts(cols); parts > 0; --parts) {
      SetTasks(RowLanes(s_.cols, bytes_), parts);
      SetSmallPart(cols, parts);
      p_.stage_bytes = RoundUp(parts * p_.part_bytes, kVectorBytes) + 2 * kVectorBytes;
      plan_.dynamic_bytes = Layout();
      plan_.blocks = DivideUp(s_.outer, parts) * strips_;
      if (plan_.dynamic_bytes <= room) return true;
    }
    return false;
  }
  std::int64_t ManyBlocks() const { return std::int64_t{kBlocksPerMultiprocessor} * device_.multiprocessors; }
  int SmallParts(int cols) const {
    if (strips_ > 1) return 1;
    const std::int64_t block = cols * s_.inner * bytes_;
    const std::int64_t parts = std::min({kOuterTileBytes / block, kMaxStripRows / s_.inner, s_.outer / ManyBlocks()});
    return static_cast<int>(std::max<std::int64_t>(1, parts));
  }
  void SetSmallPart(int cols, int parts) {
    const int block = cols * static_cast<int>(p_.strips == 1 ? s_.inner * bytes_ : p_.pitch);
    p_.part_bytes = block;
    if (parts == 1 || p_.dense) return;
    const auto past = static_cast<int>(p_.segment.input_stride % kVectorBytes * bytes_ % kVectorBytes);
    p_.part_bytes = RoundUp(block + 2 * kVectorBytes - past, kVectorBytes) + past;
  }

  // Large rows: chunks, shared by a cluster where there are any.

  bool PlanLarge() {
    plan_.mode = ColumnMode::kSteps;
    if (!FindLarge()) return false;
    plan_.blocks = s_.outer * strips_ * plan_.cluster_blocks;
    return true;
  }
  bool FindLarge() {
    const int narrow = std::max(kMinStripBytes / bytes_, unit_);
    const int wide = std::max(std::min(kLargeStripBytes / bytes_, 32), unit_);
    // First whatever keeps the whole strip on the chip.
    for (int strip = wide; strip >= narrow; strip /= 2) {
      if (FitSteps(strip) && KeepsAll()) return true;
    }
    for (int strip = narrow; strip >= 1; strip /= 2) {
      if (FitSteps(std::max(strip, unit_))) return true;
    }
    return false;
  }
  int StepsOfBlock() const { return static_cast<int>(DivideUp(ChunksOfBlock(), p_.step_parts)); }
  std::int64_t ChunksOfBlock() const {
    if (!p_.grouped) return DivideUp(chunks_, plan_.cluster_blocks);
    return DivideUp(DivideUp(chunks_, kGroupChunks), plan_.cluster_blocks) * kGroupChunks;
  }
  bool KeepsAll() const { return p_.stages >= StepsOfBlock(); }

  // With the smallest cluster that keeps all of it step by step, or else the largest one, as one block a
  // multiprocessor.
  bool FitSteps(int strip) {
    const bool all = FitCluster(strip, [this] { return FitStages(Share(1)) && KeepsAll(); });
    return all || p_.stages > 0;
  }
  template <typename F>
  bool FitCluster(int strip, F fits) {
    SetStrip(Strip(strip));
    const auto entries = static_cast<int>(std::min<std::int64_t>(chunks_, kFoldLanes));
    p_.table_entries = p_.grouped ? kFoldLanes + kAccumulators : 2;
    while (p_.table_entries < entries) p_.table_entries *= 2;
    const int most = device_.clusters ? static_cast<int>(std::min<std::int64_t>(device_.cluster_blocks, chunks_)) : 1;
    bool fit = false;
    for (int cluster = 1; cluster <= most; cluster *= 2) {
      plan_.cluster_blocks = cluster;
      SetTasks(32, 1);
      fit = fits();
      const bool idle = s_.outer * strips_ * cluster < 2 * std::int64_t{device_.multiprocessors};
      if (fit && !(idle && ChunksOfBlock() > 1)) break;
    }
    return fit;
  }
  // Several chunks a step keep every warp busy. Of a group they are a power of two.
  bool FitStages(int room) {
    const int tasks = static_cast<int>(p_.tasks.groups.value) << p_.tasks.lane_tasks_log;
    while (p_.step_parts * tasks < kStepTasks && p_.step_parts < kFoldLanes && p_.step_parts < ChunksOfBlock()) {
      p_.step_parts *= 2;
    }
    do {
      FillStages(room);
      // Where not all is kept, what comes next should be on its way while a step is worked on.
    } while (p_.stages < kFewStages && !KeepsAll() && p_.step_parts > 1 && (p_.step_parts /= 2) > 0);
    plan_.dynamic_bytes = Layout();
    return p_.stages > 0;
  }
  void SetPartBytes() {
    const bool flat = p_.strips == 1;
    p_.part_bytes = ChunkColumns(bytes_) * p_.pitch + (plan_.vectors ? 0 : flat ? kVectorBytes : 2 * kVectorBytes);
    p_.stage_bytes = p_.step_parts * p_.part_bytes;
  }
  void FillStages(int room) {
    SetPartBytes();
    p_.stages = 0;
    while (p_.stages < std::min(kMostStages, StepsOfBlock())) {
      ++p_.stages;
      if (Layout() <= room) continue;
      --p_.stages;
      break;
    }
  }

  ColumnPlan plan_;
  const Segment& s_;
  const Device& device_;
  ColumnParams& p_;
  const int bytes_;
  const int output_bytes_;
  const int stats_bytes_;
  const int vector_;
  const std::int64_t chunks_;
  int unit_ = 1;
  std::int64_t strips_ = 0;  // per outer block
  bool small_ = false;
  bool suits_ = false;
};

}  // namespace

ColumnPlan PlanColumns(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                       const Device& device) {
  return ColumnPlanner(type, output_type, segment, completion, device).Make();
}

void PlanAhead(DataType type, ColumnPlan* plan) {
  // Neighbouring blocks have about what lies in neighbouring shares if outer blocks are small.
  constexpr std::int64_t kMostOuterBytes = 8 << 20;
  ColumnParams& p = plan->params;
  const DeviceSegment& s = p.segment;
  const auto element_bytes = static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t outer_bytes = s.cols * s.inner * element_bytes;
  // Others gained nothing, or lost up to 5 %.
  const bool suits = plan->few >= 0;
  if (!suits || s.input_stride != s.cols * s.inner || outer_bytes > kMostOuterBytes) return;
  const std::int64_t share = s.outer * outer_bytes / plan->blocks / kVectorBytes * kVectorBytes;
  if (share == 0) return;
  p.ahead_bytes = static_cast<std::int32_t>(share);
}

}  // namespace softmax::kernels::cuda
