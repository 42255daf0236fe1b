// A batch of short rows on its way through memory, and its last step, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_
#undef SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows-inl.h"
#include "kernels/operations.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// Where every load is checked, code for the largest of the sizes of rows takes a compiler minutes.
#undef SOFTMAX_HAS_EACH_SIZE
#ifdef __SANITIZE_ADDRESS__
#define SOFTMAX_HAS_EACH_SIZE 0
#else
#define SOFTMAX_HAS_EACH_SIZE 1
#endif

#if HWY_TARGET != HWY_SCALAR

// Exponentials that a batch keeps.
template <typename T>
constexpr std::int64_t kBatchKept = 16384 / sizeof(T);

// Inputs that are near enough for fetching ahead to cost more than it saves: of rows of any size, and of wide ones.
constexpr std::int64_t kNearBytes = 768 << 10;
constexpr std::int64_t kNearBytesOfWide = 2 << 20;

// Lines [begin, end) of rows that are fetched ahead: those of the rows from `first` on, which are `stride` bytes apart.
struct Fetch {
  const char* first = nullptr;
  std::int64_t stride = 0;
  int begin = 0;
  int end = 0;

  HWY_INLINE void Row(int row) const {
    for (int line = begin; line < end; ++line) {
      hwy::Prefetch(first + row * stride + std::ptrdiff_t{line} * 64);
    }
  }
};

// Where the elements of a batch's rows lie, as T.
template <typename T>
struct BatchRows {
  const T* first;
  std::int64_t stride;

  const T* At(int row) const { return first + row * stride; }
};

constexpr int kMostRows = 64;

// A batch of rows on the way through.
template <typename T>
struct RowBatch {
  HWY_ALIGN T kept[kBatchKept<T>];  // softmax: exponentials; log-softmax: the rows, unless they are read where they lie
  HWY_ALIGN T unused[16 * kLanes<T>];  // exponentials that are not kept
  std::int64_t pitch;                  // from row to row of `kept`, a number of vectors
  int rows;
  std::int64_t counts[kMostRows];
  HWY_ALIGN T max[kMostRows];
  HWY_ALIGN double highs[kMostRows];  // of the totals, and of their logarithms after TakeLogs()
  HWY_ALIGN double lows[kMostRows];
  HWY_ALIGN T inverses[kMostRows];  // one by them

  Sum Total(int row) const { return {highs[row], sizeof(T) == 8 ? lows[row] : 0.0}; }
  void SetTotal(int row, Sum total) {
    highs[row] = total.high;
    lows[row] = total.low;
  }
  ScaleStep<T> ScaleOf(int row) const { return {kept + row * pitch, hn::Set(Tag<T>(), inverses[row])}; }
};

// The last step of a row of kCount elements, vectors without a rest.
template <std::int64_t kCount, class Step, typename Out>
HWY_INLINE void WriteWholeRow(const Step& step, bool streams, Out* out) {
  using E = typename Step::Element;
  if (HWY_UNLIKELY(streams)) {
    return WriteRow(step, kCount, true, out);
  }
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<Out, BFloat>) {
    WriteVecs<false>(step, 0, kCount, out);
    return;
  }
#endif
  HWY_UNROLL(4)
  for (std::int64_t i = 0; i < kCount; i += kLanes<E>) {
    StoreVec<E>(step.Whole(i), out + i);
  }
}

// The last step of a row of softmax, which is kept to the end of a vector.
template <typename T, typename Out>
HWY_INLINE void WriteKeptRow(const ScaleStep<T>& step, std::int64_t count, Out* out) {
  std::int64_t c = 0;
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<Out, BFloat>) {
    c = WriteVecs<false>(step, 0, count, out);
  }
#endif
  for (; c < count; c += kLanes<T>) {
    StoreSomeVec<T>(step.Whole(c), out + c, count - c);
  }
}

// The last step of the rows of a batch that are kVecs vectors without a rest; `given` is where log-softmax reads them.
template <typename T, int kVecs, typename Out>
HWY_NOINLINE void WriteWholeRows(const Segment& segment, const RowBatch<T>& batch, const BatchRows<T> given,
                                 const Fetch fetch, bool streams, Out* out) {
  constexpr std::int64_t kCount = std::int64_t{kVecs} * kLanes<T>;
  const bool is_log = TraitsOf(segment.operation).is_log;
  const std::int64_t stride = segment.output_stride;
  const int rows = batch.rows;
  for (int r = 0; r < rows; ++r, out += stride) {
    if (HWY_UNLIKELY(fetch.end != 0)) {
      fetch.Row(r);
    }
    if (HWY_UNLIKELY(std::isnan(batch.highs[r]))) {
      FillNan(out, kCount, segment);
    } else if (is_log) {
      WithLogStep<T, Out>(given.At(r), batch.max[r], segment.scale, batch.Total(r),
                          [&](const auto& step) HWY_ATTR { WriteWholeRow<kCount>(step, streams, out); });
    } else {
      const ScaleStep<T> step{batch.kept + r * kCount, hn::Set(Tag<T>(), batch.inverses[r])};
      WriteWholeRow<kCount>(step, streams, out);
    }
  }
}

// The same of rows of any length.
template <typename T, typename Out>
HWY_NOINLINE void WriteRows(const Segment& segment, const RowBatch<T>& batch, const BatchRows<T> given,
                            const Fetch fetch, bool streams, Out* out) {
  for (int r = 0; r < batch.rows; ++r) {
    Out* const to = out + r * segment.output_stride;
    const std::int64_t count = batch.counts[r];
    if (HWY_UNLIKELY(fetch.end != 0)) {
      fetch.Row(r);
    }
    if (HWY_UNLIKELY(std::isnan(batch.highs[r]))) {
      FillNan(to, count, segment);
      continue;
    }
    if (TraitsOf(segment.operation).is_log) {
      LogRow<T>(given.At(r), count, batch.max[r], segment.scale, batch.Total(r), streams, to);
    } else if (HWY_UNLIKELY(streams)) {
      WriteRow(batch.ScaleOf(r), count, true, to);
    } else {
      WriteKeptRow(batch.ScaleOf(r), count, to);
    }
    if (HWY_UNLIKELY(count < segment.cols)) {
      FillMasked(to, count, segment);
    }
  }
}

// The sizes of batches.
struct Batches {
  int rows;
  int ahead;  // from a row to that which is fetched while it is worked on; 0: none
};

// How the rows of a segment are taken, of which a batch holds `most`. Beyond the near caches rows of softmax go a few
// at a time, so that memory is read all along, while exponentials are computed and while they are written. Not those of
// log-softmax: their logarithms go side by side, and they are read again for the last step. Sizes by measurement.
template <typename In>
Batches BatchesOf(const Segment& segment, std::int64_t near_bytes, bool is_plain, std::int64_t most) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(In));
  most = std::min<std::int64_t>(most, kMostRows);
  if (segment.outer * segment.input_stride <= near_bytes / kSize) {
    return {static_cast<int>(most), 0};
  }
  if (!is_plain) {
    return {static_cast<int>(most), static_cast<int>(most)};
  }
  const std::int64_t rows =
      std::clamp<std::int64_t>(4096 / kSize / segment.cols, std::min<std::int64_t>(16, most), most);
  return {static_cast<int>(rows), static_cast<int>(std::max(2 * rows, 12288 / kSize / segment.cols))};
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
