#pragma once

#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/blocks/dependent.cuh"
#include "kernels/cuda/strips/strips.cuh"

// The kernels for rows of 32-bit elements in strips that overlap (strips/strips.cuh). Copies bring the next strip to
// shared memory while the results of this one, whose elements are in registers, are computed and written. A warp has
// two lanes of the tree, a thread one row of them.
namespace softmax::kernels::cuda {

// kChunks: rows of several chunks, of which each block of a cluster has as many as its registers hold; elsewhere whole
// rows.
template <bool kLog, bool kChunks>
class ColumnStream : ColumnStrips<float, kStreamWidth> {
 public:
  __device__ __forceinline__ ColumnStream(const ColumnParams& params, unsigned char* shared)
      : ColumnStrips(params, shared + sizeof(Shared), kChunks ? params.cluster_blocks : 1),
        shared_(*reinterpret_cast<Shared*>(shared)) {}

  __device__ __forceinline__ void Run() {
    const int strips = static_cast<int>(params_.segment.outer) * params_.strips;
    const int groups = static_cast<int>(gridDim.x) / blocks_;  // of blocks that share strips
    const int group = static_cast<int>(blockIdx.x) / blocks_;
    const Scale<float> scale(params_.scale_float);
    if (kChunks) Meet(shared_.barriers);
#pragma unroll
    for (int part = 0; part < kCopies; ++part) Copy(group, part, group < strips);
    unsigned turn = 0;
#pragma unroll 1
    for (int index = group; index < strips; index += groups) {
      const bool has_next = index + groups < strips;
      const unsigned char* at[kVector];
      FindColumns(StripOf(index), at);
#pragma unroll
      for (int part = 0; part < kCopies; ++part) {
        // Copies of later parts are on their way, and those of the next strip's parts.
        if (part == 0) {
          WaitCopiesButLast<kCopies - 1>();
        } else {
          WaitCopiesButLast<kCopies - 2>();
        }
        __syncthreads();
        if (part > 0) Copy(index + groups, part - 1, has_next);
        Load(at, part);
      }
      SendMaxima();
      __syncthreads();
      Copy(index + groups, kCopies - 1, has_next);
#pragma unroll
      for (int chunk = 0; chunk < kParts; ++chunk) Sum(chunk, scale);
      __syncthreads();
      if constexpr (kChunks) {
        Exchange(
            turn++, shared_.barriers, shared_.done, scale, [&](const ClusterExchange& exchange, Stats<float>* table) {
              if (const int part = Warp(), chunk = rank_ * kParts + part; part < kParts && chunk < params_.chunks) {
                exchange.Send(table + Lane() * params_.chunks + chunk, PartStats(part, Lane(), scale), blocks_);
              }
            });
        Write(StripOf(Again(index)), shared_.done[Lane()], scale);
      } else {
        Write(StripOf(Again(index)), PartStats(0, Lane(), scale), scale);
      }
    }
  }

 private:
  static constexpr int kParts = kChunks ? kSlots / kChunkSlots : 1;  // chunks of a block
  static constexpr int kPartSlots = kSlots / kParts;
  static_assert(kStreamWidth == 32, "a lane for each row");

  struct Shared {
    double sums[kParts][kStreamWarps][kStreamWidth];
    float maxima[kParts][kStreamWarps][kStreamWidth];
    Stats<float> done[kStreamWidth];
    std::uint64_t barriers[2];
  };
  static_assert(sizeof(Shared) <= kStreamBytes, "planned for");

  // Where the thread's row lies in the warp's first columns in shared memory.
  __device__ __forceinline__ void FindColumns(const Strip& strip, const unsigned char* (&at)[kVector]) const {
    const unsigned first = AddressOf(strip);
    const auto pitch = static_cast<unsigned>(Again(params_.segment.inner)) * kSize;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const unsigned past = (first + static_cast<unsigned>(e) * pitch) % kVectorBytes;
      at[e] = tile_ + (Warp() * kVector + e) * kStreamPitch + past + Lane() * kSize;
    }
  }
  __device__ __forceinline__ void Load(const unsigned char* const (&at)[kVector], int part) {
#pragma unroll
    for (int s = part * kCopySlots; s < (part + 1) * kCopySlots; ++s) {
      const bool whole = (s + 1) * 32 * kVector <= columns_;
#pragma unroll
      for (int j = 0; j < kTurns; ++j) {
        if (whole) {
#pragma unroll
          for (int e = 0; e < kVector; ++e) x_[s][j][e] = ElementAt(at[e], s, j);
        } else {
          const int left = columns_ - Warp() * kVector - ColumnOf(s, j, 0);
#pragma unroll
          for (int e = 0; e < kVector; ++e) x_[s][j][e] = e < left ? ElementAt(at[e], s, j) : -Infinity<float>();
        }
      }
    }
  }
  static __device__ __forceinline__ float ElementAt(const unsigned char* first, int slot, int turn) {
    return *reinterpret_cast<const float*>(first + ColumnOf(slot, turn, 0) * kStreamPitch);
  }

  // Statistics.

  __device__ __forceinline__ void SendMaxima() const {
#pragma unroll
    for (int chunk = 0; chunk < kParts; ++chunk) {
      float max = -Infinity<float>();
#pragma unroll
      for (int s = chunk * kPartSlots; s < (chunk + 1) * kPartSlots; ++s) {
#pragma unroll
        for (int j = 0; j < kTurns; ++j) {
#pragma unroll
          for (int e = 0; e < kVector; ++e) max = fmax(max, x_[s][j][e]);
        }
      }
      shared_.maxima[chunk][Warp()][Lane()] = max;
    }
  }
  __device__ __forceinline__ float Maximum(int chunk, int row) const {
    float max = shared_.maxima[chunk][0][row];
#pragma unroll
    for (int w = 1; w < kStreamWarps; ++w) max = fmax(max, shared_.maxima[chunk][w][row]);
    return max;
  }
  __device__ __forceinline__ void Sum(int chunk, const Scale<float>& scale) {
    const ExpBase<float> base(Maximum(chunk, Lane()), scale);
    if (__all_sync(0xffffffffu, base.IsPlain())) {
      SumOf(chunk, [&](float x) { return base.PlainExp(x, scale); });
    } else {
      SumOf(chunk, [&](float x) { return base.Exp(x, scale); });
    }
  }
  template <typename F>
  __device__ __forceinline__ void SumOf(int chunk, F exp) {
    double lanes[kTurns];
#pragma unroll
    for (int j = 0; j < kTurns; ++j) {
      float sums[kVector];
#pragma unroll
      for (int s = 0; s < kPartSlots; ++s) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          float& x = x_[chunk * kPartSlots + s][j][e];
          const float y = exp(x);
          sums[e] = s == 0 ? y : sums[e] + y;
          if (kKeep) x = y;
        }
      }
      lanes[j] = PlacesSum(sums);
    }
    static_assert(kTurns == 2, "the tree begins with lanes 16 apart");
    shared_.sums[chunk][Warp()][Lane()] = lanes[0] + lanes[1];
  }
  // The exponentials stay.
  static constexpr bool kKeep = !kLog && !kChunks;

  __device__ __forceinline__ Stats<float> PartStats(int chunk, int row, const Scale<float>& scale) const {
    const float max = Maximum(chunk, row);
    const double sum = TreeSum<1>(&shared_.sums[chunk][0][row]);
    return {max, static_cast<float>(sum * ExpBase<float>(max, scale).correction)};
  }

  // Results.

  // Whether the thread's row is one that the strip writes in the column whose first element of the strip is at `to`.
  __device__ __forceinline__ bool IsMine(const Strip& strip, const float* to) const {
    const Range range = RangeOf(strip, to);
    return Lane() >= range.begin && Lane() < range.end;
  }
  __device__ __forceinline__ void Write(const Strip& strip, const Stats<float>& stats,
                                        const Scale<float>& scale) const {
    const DeviceSegment& segment = params_.segment;
    const Normalizer<float> row(scale, stats, kLog, false);
    float* const to = static_cast<float*>(segment.output) + strip.outer * segment.output_stride + Past(strip);
    if constexpr (kKeep) {
      WriteEach(strip, to, [&](float y) { return y * row.factor; });
    } else if constexpr (kLog) {
      // As AnyLogResult() has it, asked once for the row.
      if (row.factor == row.factor) {
        const LogScale<float> log_scale(scale);
        const LogTerms<float> terms(row.base.max_pre, row.factor, row.log_lo);
        WriteEach(strip, to, [&](float x) { return terms.NumberResult(x, log_scale); });
      } else {
        WriteEach(strip, to, [](float /*x*/) { return NAN; });
      }
    } else if (row.base.IsPlain()) {
      WriteEach(strip, to, [&](float x) { return row.base.PlainExp(x, scale) * row.factor; });
    } else {
      WriteSlowly(strip, to, row);
    }
  }
  template <typename F>
  __device__ __forceinline__ void WriteEach(const Strip& strip, float* to, F result) const {
    const std::int64_t inner = Again(params_.segment.inner);
    unsigned mine = 0;  // a bit for each place
#pragma unroll
    for (int e = 0; e < kVector; ++e) mine |= IsMine(strip, to + e * inner) ? 1u << e : 0;
    const int left = columns_ - Warp() * kVector;
    const std::int64_t step = kStreamWarps * kVector * inner;
    float* first = to + Lane();
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
#pragma unroll
      for (int j = 0; j < kTurns; ++j) {
        float* p = first;
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          if (ColumnOf(s, j, e) < left && (mine >> e & 1) != 0) *p = result(x_[s][j][e]);
          p = Again(p + inner);
        }
        first = Again(first + step);
      }
    }
  }
  // In any form, from the elements in memory: rarely, so it is not worth registers.
  __device__ __forceinline__ void WriteSlowly(const Strip& strip, float* to, const Normalizer<float>& row) const {
    const DeviceSegment& segment = params_.segment;
    const float* const from =
        static_cast<const float*>(segment.input) + strip.outer * segment.input_stride + Past(strip);
    const int left = columns_ - Warp() * kVector;
#pragma unroll 1
    for (int column = 0; column < left;
         column += column % kVector < kVector - 1 ? 1 : ColumnOf(0, 1, 0) - kVector + 1) {
      float* const p = to + column * segment.inner;
      if (!IsMine(strip, p)) continue;
      float x[1] = {from[column * segment.inner + Lane()]};
      row.template Apply<float, true>(x);
      p[Lane()] = x[0];
    }
  }

  Shared& shared_;
  float x_[kSlots][kTurns][kVector];
};

template <bool kLog, bool kChunks>
__global__ void __launch_bounds__(kStreamThreads, 1) ColumnStreamKernel(const __grid_constant__ ColumnParams params) {
  extern __shared__ __align__(128) unsigned char shared[];
  WaitForEarlierLaunches();
  AllowNextLaunch();
  ColumnStream<kLog, kChunks>(params, shared).Run();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
