#pragma once

#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/blocks/dependent.cuh"
#include "kernels/cuda/columns/unit.cuh"
#include "kernels/cuda/strips/strips.cuh"

// The kernels for rows of 16-bit elements in strips that overlap (strips/strips.cuh), as strips/stream.cuh has them for
// 32 bits. A thread has two neighbouring rows as the words of memory hold them: where a column's word begins with an
// odd row, that and the row before it. Columns a vector apart lie alike, so that is the same for a place of the tree in
// all columns, and rows meet in the thread that they belong to when the sums of places are added up.
namespace softmax::kernels::cuda {

// kChunks: rows of several chunks, of which each block of a cluster has as many as its registers hold; elsewhere whole
// rows.
template <typename In, bool kLog, bool kChunks>
class ColumnPairs : ColumnStrips<In, kPairsWidth> {
  using Base = ColumnStrips<In, kPairsWidth>;
  using Base::Again, Base::ColumnOf, Base::Copy, Base::Lane, Base::Past, Base::RangeOf, Base::StripOf, Base::Warp;
  using Base::blocks_, Base::columns_, Base::params_, Base::rank_, Base::tile_;
  using Base::kCopies, Base::kCopySlots, Base::kSize, Base::kSlots, Base::kTurns, Base::kVector;
  using typename Base::Range;
  using typename Base::Strip;

 public:
  __device__ __forceinline__ ColumnPairs(const ColumnParams& params, unsigned char* shared)
      : Base(params, shared + sizeof(Shared), kChunks ? params.cluster_blocks : 1),
        shared_(*reinterpret_cast<Shared*>(shared)) {}

  __device__ __forceinline__ void Run() {
    const int group = static_cast<int>(blockIdx.x) / blocks_;
    const Scale<float> scale(params_.scale_float);
    if (kChunks) Base::Meet(shared_.barriers);
#pragma unroll
    for (int part = 0; part < kCopies; ++part) Copy(group, part, group < Strips());
    unsigned turn = 0;
#pragma unroll 1
    for (int index = group; index < Strips(); index += Groups()) {
      const bool has_next = index + Groups() < Strips();
      const unsigned address = Base::AddressOf(StripOf(index));
#pragma unroll
      for (int part = 0; part < kCopies; ++part) {
        // Copies of later parts are on their way, and those of the next strip's parts.
        if (part == 0) {
          WaitCopiesButLast<kCopies - 1>();
        } else {
          WaitCopiesButLast<kCopies - 2>();
        }
        __syncthreads();
        if (part > 0) Copy(index + Groups(), part - 1, has_next);
        Load(address, part);
      }
      const Classes classes = ClassesOf(StripOf(index));
      SendMaxima(classes);
      __syncthreads();
      Copy(index + Groups(), kCopies - 1, has_next);
      Sum(classes, scale);
      __syncthreads();
      if constexpr (kChunks) {
        this->Exchange(turn++, shared_.barriers, shared_.done, scale,
                       [&](const ClusterExchange& exchange, Stats<float>* table) {
                         if (const auto row = static_cast<int>(threadIdx.x); row < kPairsWidth) {
                           exchange.Send(table + row * params_.chunks + rank_, StatsOf(row, scale), blocks_);
                         }
                       });
      }
      const Strip strip = StripOf(Again(index));
      Write(classes, strip, Finish(strip, scale), scale);
    }
  }

 private:
  // Reckoned wherever they are asked for, as registers are for the strip's elements.
  __device__ __forceinline__ int Strips() const {
    return Again(static_cast<int>(params_.segment.outer)) * params_.strips;
  }
  // Of blocks that share strips.
  __device__ __forceinline__ int Groups() const {
    return kChunks ? Base::ClustersAgain() : static_cast<int>(gridDim.x);
  }

  static constexpr int kRows = 2;  // of a thread
  static_assert(kPairsWidth == 32 * kRows && sizeof(In) * kRows == 4 && kSlots == kChunkSlots, "a block has a chunk");
  using Pair = std::conditional_t<std::is_same_v<In, __half>, __half2, __nv_bfloat162>;
  using Word = std::uint32_t;

  struct Shared {
    double sums[kStreamWarps][kPairsWidth];
    Word maxima[kStreamWarps][32];
    Stats<float> done[kPairsWidth];
    RowTerms<float> terms[kPairsWidth];
    std::uint64_t barriers[2];
  };
  static_assert(sizeof(Shared) <= kStreamBytes, "planned for");

  // Bytes from a 4-byte boundary to the strip's first row in the columns of even and odd places: 0 or 2.
  struct Classes {
    bool odd[2];
  };
  __device__ __forceinline__ Classes ClassesOf(const Strip& strip) const {
    const unsigned first = Base::AddressOf(strip);
    const unsigned second = first + static_cast<unsigned>(params_.segment.inner) * kSize;
    return {{(first & 2) != 0, (second & 2) != 0}};
  }
  // Where the thread's words lie in the warp's first columns in shared memory.
  __device__ __forceinline__ void FindColumns(unsigned first, const unsigned char* (&at)[kVector]) const {
    const auto pitch = static_cast<unsigned>(Again(params_.segment.inner)) * kSize;
    first = Again(first);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const unsigned past = (first + static_cast<unsigned>(e) * pitch) % kVectorBytes & ~3u;
      at[e] = tile_ + (Warp() * kVector + e) * kStreamPitch + past + Lane() * 4;
    }
  }
  // `address`: AddressOf() the strip.
  __device__ __forceinline__ void Load(unsigned address, int part) {
    const unsigned char* at[kVector];
    FindColumns(address, at);
#pragma unroll
    for (int s = part * kCopySlots; s < (part + 1) * kCopySlots; ++s) {
      const bool whole = (s + 1) * 32 * kVector <= columns_;
#pragma unroll
      for (int j = 0; j < kTurns; ++j) {
        if (whole) {
#pragma unroll
          for (int e = 0; e < kVector; ++e) x_[s][j][e] = WordAt(at[e], s, j);
        } else {
          const int left = columns_ - Warp() * kVector - ColumnOf(s, j, 0);
#pragma unroll
          for (int e = 0; e < kVector; ++e) x_[s][j][e] = e < left ? WordAt(at[e], s, j) : NothingVector<In>().x;
        }
      }
    }
  }
  static __device__ __forceinline__ Word WordAt(const unsigned char* first, int slot, int turn) {
    return *reinterpret_cast<const Word*>(first + ColumnOf(slot, turn, 0) * kStreamPitch);
  }
  static __device__ __forceinline__ Word Larger(Word a, Word b) {
    Pair pairs[2];
    memcpy(&pairs[0], &a, sizeof(a));
    memcpy(&pairs[1], &b, sizeof(b));
    const Pair max = __hmax2(pairs[0], pairs[1]);
    Word word;
    memcpy(&word, &max, sizeof(word));
    return word;
  }
  static __device__ __forceinline__ void Open(Word word, float (&x)[kRows]) { Unit<In, kRows>::Open(word, x); }

  // Statistics.

  __device__ __forceinline__ void SendMaxima(const Classes& classes) const {
    Word max[2];  // of even and odd places
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      max[i] = NothingVector<In>().x;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
#pragma unroll
        for (int j = 0; j < kTurns; ++j) {
#pragma unroll
          for (int e = i; e < kVector; e += 2) max[i] = Larger(max[i], x_[s][j][e]);
        }
      }
      const Word next = __shfl_down_sync(0xffffffffu, max[i], 1);
      if (classes.odd[i]) max[i] = __funnelshift_r(max[i], next, 16);
    }
    shared_.maxima[Warp()][Lane()] = Larger(max[0], max[1]);
  }
  // Of the thread's rows.
  __device__ __forceinline__ void Maximum(float (&max)[kRows]) const {
    Word word = shared_.maxima[0][Lane()];
#pragma unroll
    for (int w = 1; w < kStreamWarps; ++w) word = Larger(word, shared_.maxima[w][Lane()]);
    Open(word, max);
#pragma unroll
    for (int k = 0; k < kRows; ++k) max[k] = fmax(-Infinity<float>(), max[k]);  // a NaN loses
  }
  // From what belongs to the thread's rows to what belongs to those of its words in the columns of a place.
  static __device__ __forceinline__ void ToWords(bool odd, const float (&mine)[kRows], float (&words)[kRows]) {
    const float before = __shfl_up_sync(0xffffffffu, mine[1], 1);
    words[0] = odd ? before : mine[0];
    words[1] = odd ? mine[0] : mine[1];
  }
  // The other way round.
  static __device__ __forceinline__ void ToRows(bool odd, double (&sums)[kRows]) {
    const double next = __shfl_down_sync(0xffffffffu, sums[0], 1);
    sums[0] = odd ? sums[1] : sums[0];
    sums[1] = odd ? next : sums[1];
  }
  __device__ __forceinline__ void Sum(const Classes& classes, const Scale<float>& scale) {
    float max[kRows];
    Maximum(max);
    const ExpBase<float> bases[kRows] = {ExpBase<float>(max[0], scale), ExpBase<float>(max[1], scale)};
    float shifts[2][kRows];
    const float mine[kRows] = {bases[0].shift, bases[1].shift};
#pragma unroll
    for (int i = 0; i < 2; ++i) ToWords(classes.odd[i], mine, shifts[i]);
    if (__all_sync(0xffffffffu, bases[0].IsPlain() && bases[1].IsPlain())) {
      SumOf(classes, 0, [&](float x, int i, int k) { return scale.PlainExp(x, shifts[i][k]); });
    } else {
      float far[2][kRows];
      const float base[kRows] = {bases[0].base, bases[1].base};
#pragma unroll
      for (int i = 0; i < 2; ++i) ToWords(classes.odd[i], base, far[i]);
      SumOf(classes, params_.zero, [&](float x, int i, int k) { return scale.FastExp(x, far[i][k], shifts[i][k]); });
    }
  }
  // `zero`: 0, but where the assembler must not know it: what both forms would open the words to is not worth
  // registers.
  template <typename F>
  __device__ __forceinline__ void SumOf(const Classes& classes, Word zero, F exp) {
    double lanes[kTurns][kRows];
#pragma unroll
    for (int j = 0; j < kTurns; ++j) {
      float sums[kRows][kVector];
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          float x[kRows];
          Open(x_[s][j][e] ^ zero, x);
#pragma unroll
          for (int k = 0; k < kRows; ++k) {
            const float y = exp(x[k], e % 2, k);
            sums[k][e] = s == 0 ? y : sums[k][e] + y;
          }
        }
      }
      double all[2][kRows];  // of even and odd places
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float(&x)[kVector] = sums[k];
          all[i][k] = (static_cast<double>(x[i]) + x[i + 4]) + (static_cast<double>(x[i + 2]) + x[i + 6]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) ToRows(classes.odd[i], all[i]);
#pragma unroll
      for (int k = 0; k < kRows; ++k) lanes[j][k] = all[0][k] + all[1][k];
    }
    static_assert(kTurns == 2 && kVector == 8, "the tree begins with places, and then lanes 16 apart");
#pragma unroll
    for (int k = 0; k < kRows; ++k) shared_.sums[Warp()][kRows * Lane() + k] = lanes[0][k] + lanes[1][k];
  }

  __device__ __forceinline__ Stats<float> StatsOf(int row, const Scale<float>& scale) const {
    Word word = shared_.maxima[0][row / kRows];
#pragma unroll
    for (int w = 1; w < kStreamWarps; ++w) word = Larger(word, shared_.maxima[w][row / kRows]);
    float max[kRows];
    Open(word, max);
    const float mine = fmax(-Infinity<float>(), row % kRows == 0 ? max[0] : max[1]);
    const double sum = Base::template TreeSum<1>(&shared_.sums[0][row]);
    return {mine, static_cast<float>(sum * ExpBase<float>(mine, scale).correction)};
  }
  // Leaves what results need of the rows; returns whether they have the usual form.
  __device__ __forceinline__ bool Finish(const Strip& strip, const Scale<float>& scale) const {
    bool usual = true;
    if (const auto row = static_cast<int>(threadIdx.x); row < kPairsWidth) {
      const Stats<float> stats = kChunks ? shared_.done[row] : StatsOf(row, scale);
      const Normalizer<float> done(scale, stats, kLog, false);
      shared_.terms[row] = TermsOf<In>(done);
      if (!kChunks) shared_.done[row] = stats;
      usual = row >= strip.width || IsUsual<In>(done);
    }
    return __syncthreads_and(usual ? 1 : 0) != 0;
  }

  // Results.

  __device__ __forceinline__ void Write(const Classes& classes, const Strip& strip, bool usual,
                                        const Scale<float>& scale) const {
    const DeviceSegment& segment = params_.segment;
    In* const to = static_cast<In*>(segment.output) + strip.outer * segment.output_stride + Past(strip);
    if (!usual) return WriteSlowly(strip, to, scale);
    float from[2][kRows];
    float factor[2][kRows];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const RowTerms<float> terms = shared_.terms[max(0, kRows * Lane() + k - (classes.odd[i] ? 1 : 0))];
        from[i][k] = terms.from;
        factor[i][k] = terms.factor;
      }
    }
    const auto result = [&](float x, float row_from, float row_factor) {
      return kLog ? fma(x - row_from, scale.plain, -row_factor) : scale.PlainExp(x, row_from) * row_factor;
    };
    WriteWords(classes, strip, to, [&](int e, float(&x)[kRows]) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) x[k] = result(x[k], from[e % 2][k], factor[e % 2][k]);
    });
    if (strip.first == 0) WriteHalves(classes, strip, to, 0, result);
    if (strip.first + strip.width == static_cast<int>(segment.inner)) {
      WriteHalves(classes, strip, to, strip.width - 1, result);
    }
  }
  // Words of two rows that are both the strip's.
  template <typename F>
  __device__ __forceinline__ void WriteWords(const Classes& classes, const Strip& strip, In* to, F results) const {
    const int inner = Again(static_cast<int>(params_.segment.inner));
    unsigned mine = 0;  // a bit for each place
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const Range range = RangeOf(strip, to + std::int64_t{e} * inner);
      const int row = kRows * Lane() - (classes.odd[e % 2] ? 1 : 0);
      mine |= row >= range.begin && row + 1 < range.end ? 1u << e : 0;
    }
    const int left = columns_ - Warp() * kVector;
    const Word zero = params_.zero;  // the assembler would keep what the words were opened to
    const std::int64_t step = std::int64_t{kStreamWarps * kVector} * inner;
    In* first = to + kRows * Lane();
    const int back[2] = {classes.odd[0] ? -1 : 0, classes.odd[1] ? -1 : 0};
    const int pitch[2] = {inner + back[1] - back[0], inner + back[0] - back[1]};
    first += back[0];
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
#pragma unroll
      for (int j = 0; j < kTurns; ++j) {
        In* p = first;
        const int has = left - ColumnOf(s, j, 0);
        const unsigned places = has >= kVector ? mine : has > 0 ? mine & ((1u << has) - 1) : 0;
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          float x[kRows];
          Open(x_[s][j][e] ^ zero, x);
          results(e, x);
          const Word word = Unit<In, kRows>::Close(x);
          if ((places >> e & 1) != 0) *reinterpret_cast<Word*>(p) = word;
          p = Again(p + pitch[e % 2]);
        }
        first = Again(first + step);
      }
    }
  }
  // A column's first or last row where its word has another column's element too; from the memory, a lane a column.
  template <typename F>
  __device__ __forceinline__ void WriteHalves(const Classes& classes, const Strip& strip, In* to, int row,
                                              F result) const {
    const DeviceSegment& segment = params_.segment;
    const In* const input = static_cast<const In*>(segment.input) + strip.outer * segment.input_stride + Past(strip);
    const RowTerms<float> terms = shared_.terms[row];
    const int left = columns_ - Warp() * kVector;
#pragma unroll 1
    for (int i = Lane(); i < kSlots * kTurns * kVector; i += 32) {
      const int column = ColumnOf(i / (kTurns * kVector), i / kVector % kTurns, i % kVector);
      const int odd = (i % 2 == 0 ? classes.odd[0] : classes.odd[1]) ? 1 : 0;  // no array in memory
      const bool whole = row == 0 ? odd == 0 && strip.width > 1 : (row + odd) % 2 != 0;
      if (column >= left || whole) continue;
      const Range range = RangeOf(strip, to + column * segment.inner);
      if (row < range.begin || row >= range.end) continue;
      to[column * segment.inner + row] =
          FromCompute<In, float>(result(ToCompute(input[column * segment.inner + row]), terms.from, terms.factor));
    }
  }
  // In any form, from the elements in memory: rarely, so it is not worth registers.
  __device__ __forceinline__ void WriteSlowly(const Strip& strip, In* to, const Scale<float>& scale) const {
    const DeviceSegment& segment = params_.segment;
    const In* const from = static_cast<const In*>(segment.input) + strip.outer * segment.input_stride + Past(strip);
    const int left = columns_ - Warp() * kVector;
#pragma unroll 1
    for (int column = 0; column < left;
         column += column % kVector < kVector - 1 ? 1 : ColumnOf(0, 1, 0) - kVector + 1) {
      In* const p = to + column * segment.inner;
      const Range range = RangeOf(strip, p);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const int row = kRows * Lane() + k;
        if (row < range.begin || row >= range.end) continue;
        float x[1] = {ToCompute(from[column * segment.inner + row])};
        Normalizer<float>(scale, shared_.done[row], kLog, false).template Apply<In, true>(x);
        p[row] = FromCompute<In, float>(x[0]);
      }
    }
  }

  Shared& shared_;
  Word x_[kSlots][kTurns][kVector];
};

template <typename In, bool kLog, bool kChunks>
__global__ void __launch_bounds__(kStreamThreads, 1) ColumnPairsKernel(const __grid_constant__ ColumnParams params) {
  extern __shared__ __align__(128) unsigned char shared[];
  WaitForEarlierLaunches();
  AllowNextLaunch();
  ColumnPairs<In, kLog, kChunks>(params, shared).Run();
  Complete(params.completion);
}

template <typename In>
const ColumnStreamKernels& PairsKernelsOf() {
  static const ColumnStreamKernels kernels = {{{reinterpret_cast<const void*>(&ColumnPairsKernel<In, false, false>),
                                                reinterpret_cast<const void*>(&ColumnPairsKernel<In, true, false>)},
                                               {reinterpret_cast<const void*>(&ColumnPairsKernel<In, false, true>),
                                                reinterpret_cast<const void*>(&ColumnPairsKernel<In, true, true>)}}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
