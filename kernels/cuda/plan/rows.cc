#include "kernels/cuda/plan/rows.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/core/work.h"

namespace softmax::kernels::cuda {
namespace {

constexpr int kMaxWideChunks = 1 << 17;  // 256 MB

// How rows lie to the boundaries of 16 bytes; input and output miss them alike, or no rule takes them.
enum Lie : std::uint8_t {
  kVectors = 1,   // whole vectors from boundaries on
  kAligned = 2,   // they begin on boundaries and end anywhere
  kOddDense = 4,  // they miss them, and follow each other without gaps, from a boundary on
  kOdd = 8,       // they miss them otherwise
};
enum Results : std::uint8_t {
  kOwn = 1,
  kNear = 2,  // of another type, up to twice as wide
  kFar = 4,   // of four times the width: lanes would store 64 bytes apart
};
enum Of : std::uint8_t { k16 = 1, k32 = 2, k64 = 4, kSoftmax = 8, kLogSoftmax = 16 };

constexpr std::uint8_t kAnyLie = kVectors | kAligned | kOddDense | kOdd;
constexpr std::uint8_t kOther = kNear | kFar;
constexpr std::uint8_t kAnyResults = kOwn | kOther;
constexpr std::uint8_t kBoth = kSoftmax | kLogSoftmax;
constexpr std::uint8_t kNarrow = k16 | k32;
constexpr std::uint8_t kAnyType = k16 | k32 | k64;
constexpr int kAny = 1 << 30;

// What a room takes, and with which of its sizes. The first that fits wins.
struct Rule {
  std::uint8_t of;       // element bits and operations
  std::uint8_t results;  // their types
  std::uint8_t lies;
  int least_chunks;  // of a row, of 2 KB each; small rows (SmallColumns()) have 0
  int most_chunks;
  int least_warps;  // a multiprocessor, a warp for each chunk or small row
  int most_warps;
  Room room;
  int size;  // unless the geometry chooses it
  bool (*plan)(const Device&, MatrixPlan*);
};

// Few small rows go to as many multiprocessors as there are, in blocks of as few warps as that takes: the warps of a
// block wait for each other's loads and stores.
void Spread(const Device& device, MatrixPlan* plan) {
  const MatrixParams& p = plan->params;
  const auto blocks = [&](int threads) { return DivideUp(p.rows, threads / p.lanes); };
  if (blocks(plan->threads) > device.multiprocessors) return;
  while (plan->threads > 32 && blocks(plan->threads / 2) <= device.multiprocessors) plan->threads /= 2;
  plan->blocks = blocks(plan->threads);
}

// Whether the next launch may take its places early. Then its input is on its way while this one ends (AskAhead()). But
// where a launch puts several blocks on each multiprocessor at once, the next one's come to lie unevenly if they take
// the places that are left beside them. That costs more where groups take several rows, and with some fp32 softmax:
// long rows that fill one wave, and aligned ones of which a multiprocessor holds just six blocks. Rows that fill one
// wave are kept from more places than they have by the shared memory that they ask for, if their registers leave them
// that many; 16-bit ones of three slots and more need the registers.
void PlanNextEarly(int slots, const Device& device, MatrixPlan* plan) {
  constexpr int kShortSlots = 5;
  MatrixParams& p = plan->params;
  const int bytes = plan->bytes();
  const std::int64_t multiprocessors = device.multiprocessors;
  p.next_early = plan->blocks <= 2 * multiprocessors || plan->blocks > 6 * multiprocessors || (bytes == 2 && slots > 2);
  if (p.next_early || !device.clusters || bytes == 8) return;
  const bool is_full =
      plan->blocks > (kOneWaveBlocks - 1) * multiprocessors && plan->blocks <= kOneWaveBlocks * multiprocessors;
  const bool has_several = plan->room == Room::kSmall && slots <= 2 && !plan->skew;
  const bool is_softmax = bytes == 4 && !p.log;
  const bool is_long = is_softmax && is_full && slots > kShortSlots;
  const bool is_six =
      is_softmax && !plan->skew && slots > 2 && slots <= kShortSlots + 1 && plan->blocks > 5 * multiprocessors;
  if (has_several || is_long || is_six) return;
  p.next_early = true;
  if (is_full && slots <= kShortSlots) plan->dynamic_bytes = ShareOf(device, kOneWaveBlocks);
}

int SlotsOf(const MatrixPlan& plan) {
  return static_cast<int>(DivideUp(DivideUp(plan.params.cols, VectorElements(plan.bytes())), plan.params.lanes));
}

bool PlanSplit(const Device&, MatrixPlan* plan) {
  const MatrixParams& p = plan->params;
  const int slots = SlotsOf(*plan);
  if (p.lanes < 32 || slots == 1) return false;
  plan->threads = 32 * slots;
  plan->blocks = p.rows;
  return true;
}

// Groups of lanes, of so many rows each; those of results of another type have one.
bool PlanGroups(const Device& device, MatrixPlan* plan) {
  const MatrixParams& p = plan->params;
  const int slots = SlotsOf(*plan);
  plan->size = SmallSize(slots);
  plan->threads = SmallThreads(plan->bytes(), plan->size, plan->skew, p.log);
  const int groups = plan->threads / p.lanes;
  int each = plan->mixed ? 1 : SmallRows(plan->size, plan->skew);
  if (plan->room == Room::kSingle) {
    if (each == 1 || !AreFew(DivideUp(p.rows, groups), MostSingleBlocks(slots), device)) return false;
    each = 1;
  }
  plan->blocks = DivideUp(p.rows, std::int64_t{groups} * each);
  if (each == 1 && plan->size <= kMostFewSlots) Spread(device, plan);
  if (!plan->mixed) PlanNextEarly(slots, device, plan);
  return true;
}

// In their order. A warp for each chunk is fastest, however few columns the last one holds, but not with fewer warps
// than the multiprocessors have places: the next launch would take the others early and come to lie unevenly.
// Log-softmax of more fp32 chunks was not measured. Where results are of another type, bulk copies beat registers from
// more than 16 warps a multiprocessor on.
constexpr Rule kRules[] = {
    {kNarrow | kBoth, kAnyResults, kOddDense, 0, 0, 0, kAny, Room::kTile, 0, PlanTile},
    {kNarrow | kBoth, kOwn, kAnyLie, 0, 0, 0, 2, Room::kSplit, 0, PlanSplit},
    {kNarrow | kBoth, kOwn, kAnyLie, 0, 0, 0, kAny, Room::kSingle, 0, PlanGroups},
    {kAnyType | kBoth, kOwn, kAnyLie, 0, 0, 0, kAny, Room::kSmall, 0, PlanGroups},
    {kNarrow | kBoth, kOther, kAnyLie, 0, 0, 0, kAny, Room::kSmall, 0, PlanGroups},
    {kNarrow | kSoftmax, kOwn, kVectors, 1, 16, 48, kAny, Room::kChunk, 0, PlanChunk},
    {k16 | kBoth, kOwn | kNear, kVectors, 1, 12, 48, kAny, Room::kChunk, 0, PlanChunk},
    {k32 | kSoftmax, kNear, kVectors, 1, 12, 48, kAny, Room::kChunk, 0, PlanChunk},
    {k32 | kLogSoftmax, kOwn | kNear, kVectors, 1, 10, 48, kAny, Room::kChunk, 0, PlanChunk},
    {kNarrow | kLogSoftmax, kOwn, kVectors, 11, 16, 48, kAny, Room::kBulk, 0, PlanBulk},
    {kNarrow | kBoth, kOwn | kNear, kVectors, 193, kFlatChunks, 0, kAny, Room::kFew, kFewGrid, PlanFewGrid},
    {kNarrow | kBoth, kOwn | kNear, kVectors, 1, kFlatChunks, 0, kAny, Room::kFew, 0, PlanFew},
    {kNarrow | kBoth, kOther, kAnyLie, 1, kFlatChunks, 0, 16, Room::kLarge, 0, PlanLarge},
    {k16 | kBoth, kOwn, kOddDense | kOdd, 1, 30, 0, kAny, Room::kParts, 0, PlanParts},
    {kNarrow | kBoth, kOther, kAnyLie, 1, kFlatChunks, 0, kAny, Room::kParts, 0, PlanParts},
    {kNarrow | kBoth, kOwn, kOddDense | kOdd, 1, 32, 0, kAny, Room::kBulk, 0, PlanBulk},
    {kNarrow | kBoth, kOther, kAnyLie, 1, 32, 0, kAny, Room::kBulk, 0, PlanBulk},
    {k64 | kBoth, kAnyResults, kAnyLie, 1, 48, 0, kAny, Room::kBulk, 0, PlanBulk},
    {k32 | kBoth, kOwn, kAnyLie, 1, kFlatChunks, 0, kAny, Room::kParts, 0, PlanParts},
    {kNarrow | kBoth, kOwn, kVectors, 17, kFlatChunks, 40, kAny, Room::kCluster, 0, PlanCluster},
    {k16 | kBoth, kOwn, kAnyLie, 1, kFlatChunks, 0, kAny, Room::kParts, 0, PlanParts},
    {kAnyType | kBoth, kOwn, kAnyLie, 65, kMaxWideChunks, 0, kAny, Room::kWide, 0, PlanWide},
    {kAnyType | kBoth, kOwn, kAnyLie, 1, kFlatChunks, 0, kAny, Room::kSlice, 0, PlanSlice},
    {kNarrow | kBoth, kOwn, kAnyLie, 1, kFlatChunks, 0, kAny, Room::kLarge, 0, PlanLarge},
};

// What the rules look at.
struct Facts {
  std::uint8_t of;
  std::uint8_t results;
  std::uint8_t lie;
  int chunks;
  std::int64_t warps;

  bool Suit(const Rule& rule, const Device& device) const {
    return (of & ~rule.of) == 0 && (results & rule.results) != 0 && (lie & rule.lies) != 0 &&
           chunks >= rule.least_chunks && chunks <= rule.most_chunks && AreMany(warps, rule.least_warps, device) &&
           AreFew(warps, rule.most_warps, device);
  }
};

std::uint8_t LieOf(const Segment& s, int bytes, int output_bytes) {
  const auto past = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kVectorBytes; };
  const bool one = s.outer == 1;
  const bool begins = past(s.input) == 0 && past(s.output) == 0;
  const bool steps =
      one || (s.input_stride * bytes % kVectorBytes == 0 && s.output_stride * output_bytes % kVectorBytes == 0);
  if (begins && steps) return s.cols % VectorElements(bytes) == 0 ? kVectors : kAligned;
  return begins && s.input_stride == s.cols && s.output_stride == s.cols ? kOddDense : kOdd;
}

// Whether rows start on lines of 128 bytes.
bool AreOnLines(const Segment& s, int bytes) {
  constexpr int kLineBytes = kEdgeVectors * kVectorBytes;
  return reinterpret_cast<std::uintptr_t>(s.input) % kLineBytes == 0 &&
         (s.outer == 1 || s.input_stride * bytes % kLineBytes == 0);
}

}  // namespace

MatrixPlan PlanMatrix(DataType type, DataType output_type, const Segment& s, const Completion& completion,
                      const Device& device) {
  MatrixPlan plan;
  plan.type = type;
  const int bytes = plan.bytes();
  const auto output_bytes = static_cast<int>(SizeOf(output_type));
  if (s.inner != 1 || !AreAlike(s, bytes, output_bytes)) return plan;
  MatrixParams& p = plan.params;
  p.scale_double = ScaleParts<double>::Of(s.scale);
  p.scale_float = ScaleParts<float>::Of(s.scale);
  plan.mixed = output_type != type;
  // These kernels have the fast form of the exponential only.
  if (type != DataType::kFloat64 && p.scale_float.fast == 0) return plan;
  p.input = s.input;
  p.output = s.output;
  p.output_type = output_type;
  p.lengths = s.lengths;
  p.rows = s.outer;
  p.cols = s.cols;
  p.input_stride = s.outer == 1 ? s.cols : s.input_stride;
  p.output_stride = s.outer == 1 ? s.cols : s.output_stride;
  p.elements = (s.outer - 1) * p.input_stride + s.cols;
  p.log = s.operation == Operation::kLogSoftmax;
  p.next_early = true;
  p.completion = completion;
  p.lanes = RowLanes(s.cols, bytes);
  p.cluster_blocks = 1;
  p.chunks = s.cols <= SmallColumns(bytes)
                 ? 0
                 : static_cast<int>(std::min<std::int64_t>(DivideUp(s.cols, ChunkColumns(bytes)), kMaxWideChunks + 1));
  plan.lines = AreOnLines(s, bytes);
  const std::uint8_t bits = bytes == 2 ? k16 : bytes == 4 ? k32 : k64;
  const std::uint8_t results = !plan.mixed ? kOwn : output_bytes > 2 * bytes ? kFar : kNear;
  const Facts facts{static_cast<std::uint8_t>(bits | (p.log ? kLogSoftmax : kSoftmax)), results,
                    LieOf(s, bytes, output_bytes), p.chunks, p.rows * std::max(1, p.chunks)};
  plan.skew = (facts.lie & (kOdd | kOddDense)) != 0;
  for (const Rule& rule : kRules) {
    if (!facts.Suit(rule, device)) continue;
    MatrixPlan tried = plan;
    tried.room = rule.room;
    tried.size = rule.size;
    if (rule.plan(device, &tried) && tried.blocks <= std::numeric_limits<int>::max()) return tried;
  }
  return plan;
}

void PlanAhead(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // Where a launch lets no other come early, launches like it gain nothing. Parts of rows off the boundaries lost, and
  // those of the largest clusters.
  const bool is_part = plan->room == Room::kParts && p.cluster_blocks > (plan->skew ? 1 : kMaxClusterBlocks);
  if (!device.clusters || plan->room == Room::kWide || !p.next_early || is_part) return;
  const std::int64_t elements = p.rows * p.cols;
  if (p.elements > elements + elements / 8) return;  // gaps are not worth reading
  const std::int64_t share = p.elements * plan->bytes() / plan->blocks;
  p.ahead_bytes = static_cast<int>(share / kVectorBytes * kVectorBytes);
}

}  // namespace softmax::kernels::cuda
