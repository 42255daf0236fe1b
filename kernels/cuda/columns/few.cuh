#pragma once

#include "kernels/cuda/blocks/again.cuh"
#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/columns/memory.cuh"

// The kernel for rows of few columns over another axis: a thread has a unit of each column in registers. Neighbouring
// threads have neighbouring units. Results are of one of the types in ForUsualOutput().
namespace softmax::kernels::cuda {

template <typename In, int kColumns, int kUnit, bool kLog>
class ColumnFew {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ ColumnFew(const ColumnParams& params, const Scale<C>& scale)
      : params_(params),
        segment_(params.segment),
        scale_(scale),
        columns_(static_cast<int>(params.segment.cols)),
        output_type_(params.output_type),
        zero_(params.zero) {}

  // The rows of the unit `unit` of the outer block `outer`.
  __device__ __forceinline__ void Run(unsigned outer, unsigned unit) {
    Load(RowOf(outer, unit));
    C max[kUnit];
    UnitMaximum<In, kUnit> maximum;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) maximum.Add(units_[c]);
    maximum.Get(max);
    if constexpr (sizeof(In) == 2) {
      if (!IsPlain(max)) return RunFromMemory();
      return RunPlain(outer, unit, max);
    } else {
      RunAny(outer, unit, max);
    }
  }

 private:
  using U = Unit<In, kUnit>;
  using Raw = typename U::Raw;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kLanes = RowLanes(kColumns, sizeof(In));
  static constexpr int kSlots = kColumns / (kLanes * kVector);
  // 32-bit units become their exponentials when these are summed; for others it costs less to take them again.
  static constexpr bool kKeeps = sizeof(In) == 4 && !kLog;
  static_assert(kSlots * kLanes * kVector == kColumns, "the tree of a row");

  // Whether the rows want the care of few columns.
  __device__ __forceinline__ bool IsPrecise() const { return kLog && columns_ <= kPreciseColumns; }
  // What PreciseStats gives.
  __device__ __forceinline__ RowStats<C> PreciseRow(int k, C max) const {
    constexpr int kPlaces = 8;
    static_assert(kPreciseColumns <= kPlaces && kPlaces <= kColumns, "the others are empty");
    TwoPart<C> sums[kPlaces];
#pragma unroll
    for (int c = 0; c < kPreciseColumns; ++c) {
      C x[kUnit];
      U::Open(units_[c], x);
      sums[c].high = NarrowExp<In>(x[k], max, scale_);
    }
    HalvingSum<kPlaces, 1>(sums);
    return {max, sums[0].high, sums[0].low};
  }
  template <bool kPlain>
  __device__ __forceinline__ RowStats<C> AnyRow(int k, C max) {
    if constexpr (kLog && kColumns <= kNarrowColumns) {
      if (IsPrecise()) return PreciseRow(k, max);
    }
    return Row<kPlain>(k, max);
  }
  // Whether the rows, of 16-bit elements, have their plain forms.
  __device__ __forceinline__ bool IsPlain(const C (&max)[kUnit]) const {
    bool plain = !kLog || scale_.plain != 0;
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      plain = plain && ExpBase<C>(max[k], scale_).IsPlain() && (!kLog || fabsf(max[k]) <= kMostPlain);
    }
    return plain;
  }
  // Of 32 bits in any form.
  __device__ __forceinline__ void RunAny(unsigned outer, unsigned unit, const C (&max)[kUnit]) {
    C factor[kUnit];
    LogTerms<C> terms[kUnit];
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      Forget();
      const Normalizer<C> row(scale_, AnyRow<false>(k, max[k]), kLog, false);
      factor[k] = row.factor;
      if constexpr (kLog) terms[k] = LogTerms<C>(row.base.max_pre, row.factor, row.log_lo);
    }
    const LogScale<C> log_scale(scale_);
    Write(outer, unit, [&](C(&x)[kUnit]) {
#pragma unroll
      for (int k = 0; k < kUnit; ++k) x[k] = kLog ? terms[k].Result(x[k], log_scale) : x[k] * factor[k];
    });
  }
  __device__ __forceinline__ void RunPlain(unsigned outer, unsigned unit, const C (&max)[kUnit]) {
    C from[kUnit];
    C factor[kUnit];
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const Normalizer<C> row(scale_, AnyRow<true>(k, max[k]), kLog, false);
      from[k] = kLog ? row.max : row.base.shift;
      factor[k] = row.factor;
    }
    Write(outer, unit, [&](C(&x)[kUnit]) {
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        if constexpr (kLog) {
          x[k] = fma(x[k] - from[k], scale_.plain, -factor[k]);
        } else {
          x[k] = scale_.PlainExp(x[k], from[k]) * factor[k];
        }
      }
    });
  }
  // In any form: rarely, so it is not worth registers, and finds its place again for itself.
  __device__ __forceinline__ void RunFromMemory() const {
    const unsigned thread = BlockAgain() * blockDim.x + static_cast<unsigned>(ThreadAgain());
    const unsigned outer = thread / static_cast<unsigned>(params_.units);
    const unsigned unit = thread - outer * static_cast<unsigned>(params_.units);
    const int columns = Again(columns_);
#pragma unroll 1
    for (int k = 0; k < kUnit; ++k) {
      const In* const row = RowOf(outer, unit) + k;
      C max = -Infinity<C>();
      for (int c = 0; c < columns; ++c) max = Larger(max, ToCompute(row[c * segment_.inner]));
      RowStats<C> stats(Stats<C>{max, C(0)});
      if (IsPrecise()) {
        stats = PreciseStatsOf<In>(params_, row, columns, max);
      } else {
        const double sum = SumOfLanes<In>(params_, row, columns, 0, 1, kLanes, max);
        stats.sum = static_cast<C>(sum * ExpBase<C>(max, scale_).correction);
      }
      const std::int64_t output = outer * segment_.output_stride + static_cast<std::int64_t>(unit) * kUnit + k;
      WriteFromMemory<In>(params_, row, output, 0, columns, 1, columns, stats);
    }
  }
  __device__ __forceinline__ const In* RowOf(unsigned outer, unsigned unit) const {
    return static_cast<const In*>(segment_.input) + outer * segment_.input_stride +
           static_cast<std::int64_t>(unit) * kUnit;
  }
  template <typename F>
  __device__ __forceinline__ void Write(unsigned outer, unsigned unit, F result) {
    Forget();
    ForUsualOutput<In>(output_type_, [&](auto* type) {
      using Out = std::remove_pointer_t<decltype(type)>;
      std::int64_t pitch = segment_.inner * static_cast<int>(sizeof(Out));
      asm volatile("" : "+l"(pitch));  // its multiples are not worth registers
      const int columns = Again(columns_);
      Out* const output =
          static_cast<Out*>(segment_.output) + outer * segment_.output_stride + static_cast<std::int64_t>(unit) * kUnit;
      auto* p = reinterpret_cast<unsigned char*>(output);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c < columns) {
          C x[kUnit];
          U::Open(units_[c], x);
          result(x);
          StoreUnit(reinterpret_cast<Out*>(p), x);
        }
        p += pitch;
      }
    });
  }

  __device__ __forceinline__ void Load(const In* input) {
    std::int64_t pitch = segment_.inner * static_cast<int>(sizeof(In));
    // Its multiples are not worth registers, except with log-softmax of 32 bits.
    if constexpr (!kLog || sizeof(In) != 4) asm volatile("" : "+l"(pitch));
    const uint4 nothing = NothingVector<In>();
    const int columns = Again(columns_);
    const auto* p = reinterpret_cast<const unsigned char*>(input);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      memcpy(&units_[c], &nothing, sizeof(Raw));
      if (c < columns) units_[c] = U::Load(p);
      p += pitch;
    }
  }
  // The same, as far as the compiler knows some other value.
  static __device__ __forceinline__ int Again(int value) {
    asm volatile("" : "+r"(value));
    return value;
  }
  // Makes the compiler forget what the units were opened to, which would take more registers than they do. The
  // assembler sees through that, and where it would spill it is told that the units may have changed.
  __device__ __forceinline__ void Forget() {
    if constexpr (!kKeeps) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if constexpr (sizeof(Raw) == 2) {
          asm volatile("" : "+h"(reinterpret_cast<std::uint16_t&>(units_[c])));
        } else if constexpr (sizeof(Raw) == 4) {
          auto& word = reinterpret_cast<std::uint32_t&>(units_[c]);
          if constexpr (kColumns > 32 && sizeof(In) == 2) word ^= zero_;
          asm volatile("" : "+r"(word));
        } else if constexpr (sizeof(Raw) == 8) {
          asm volatile("" : "+l"(reinterpret_cast<std::uint64_t&>(units_[c])));
        } else {
          Opaque(units_[c]);
        }
      }
    }
  }
  // Element k's row: as the lanes of a contiguous one do it.
  template <bool kPlain>
  __device__ __forceinline__ RowStats<C> Row(int k, C max) {
    const ExpBase<C> base(max, scale_);
    double sums[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      C places[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        places[e] = 0;
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          Raw& unit = units_[(slot * kLanes + lane) * kVector + e];
          C x[kUnit];
          U::Open(unit, x);
          const C y = kPlain ? base.PlainExp(x[k], scale_) : base.Exp(x[k], scale_);
          places[e] += y;
          if constexpr (kKeeps) {
            x[k] = y;
            unit = U::Close(x);
          }
        }
      }
      sums[lane] = PlacesSum(places);
    }
    return Stats<C>{max, static_cast<C>(TreeSum(sums) * base.correction)};
  }
  static __device__ __forceinline__ double TreeSum(double (&sums)[kLanes]) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
      for (int lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
    }
    return sums[0];
  }

  const ColumnParams& params_;
  const DeviceSegment& segment_;
  const Scale<C>& scale_;
  const int columns_;
  const DataType output_type_;
  const std::uint32_t zero_;
  Raw units_[kColumns];
};

// Blocks a multiprocessor has to hold: fewer where registers keep the most, or that would lie in local memory.
template <typename In, int kColumns, int kUnit>
constexpr int kFewBlocks = kColumns* kUnit * sizeof(In) > 128 ? 6
                           : kUnit > 1 || kColumns > 16       ? 8
                                                              : 12;

template <typename In, int kColumns, int kUnit>
__global__ void __launch_bounds__(kFewThreads, (kFewBlocks<In, kColumns, kUnit>))
    ColumnFewKernel(const __grid_constant__ ColumnParams params) {
  AskAhead<In>(params.segment.input, params.ahead_bytes);
  WaitForEarlierLaunches();
  AllowNextLaunch();
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  const auto units = static_cast<unsigned>(params.units);
  const unsigned outer = thread / units;
  if (outer < static_cast<unsigned>(params.segment.outer)) {
    const Scale<float> scale(params.scale_float);
    if (params.segment.log != 0) {
      ColumnFew<In, kColumns, kUnit, true>(params, scale).Run(outer, thread - outer * units);
    } else {
      ColumnFew<In, kColumns, kUnit, false>(params, scale).Run(outer, thread - outer * units);
    }
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
