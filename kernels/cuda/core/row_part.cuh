#pragma once

#include "kernels/cuda/core/mixed_store.cuh"

// A stretch of a row held by a group of lanes as the aligned vectors that memory has: what lies before the row's first
// element in the first vector is carried along, and what does not count after its last one is -inf. Results are
// computed on the same vectors and stored whole, so input and output must miss 16-byte boundaries alike.
//
// The sums must come out as those of vectors counted from the row's first column, of which these are the rotation by
// `skip` places: lane 0 takes the places before `skip` from its next vector, the sums of those places move one lane
// down, and PlacesSum() does not mind the rotation.
namespace softmax::kernels::cuda {

// The first `bytes` bytes of a vector.
class BlendMask {
 public:
  __device__ __forceinline__ explicit BlendMask(int bytes) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int below = bytes - 4 * i;
      words_[i] = below <= 0 ? 0 : below >= 4 ? 0xffffffffu : (1u << (8 * below)) - 1;
    }
  }
  // `a` with these bytes replaced by those of `b`.
  __device__ __forceinline__ uint4 Blend(uint4 a, uint4 b) const {
    a.x = (a.x & ~words_[0]) | (b.x & words_[0]);
    a.y = (a.y & ~words_[1]) | (b.y & words_[1]);
    a.z = (a.z & ~words_[2]) | (b.z & words_[2]);
    a.w = (a.w & ~words_[3]) | (b.w & words_[3]);
    return a;
  }

 private:
  std::uint32_t words_[4];
};

// Moves the sums of the places before `skip` one lane down.
template <typename In>
__device__ __forceinline__ void RotateSums(int skip, Lanes lanes, ComputeOf<In> (&sums)[Element<In>::kVector]) {
#pragma unroll
  for (int e = 0; e < Element<In>::kVector; ++e) {
    const ComputeOf<In> next = __shfl_sync(0xffffffffu, sums[e], (lanes.lane + 1) & (lanes.count - 1), lanes.count);
    if (e < skip) sums[e] = next;
  }
}

// The statistics of kMany vectors per lane, rotated by `skip` places where kSkew.
template <typename In, int kMany, bool kSkew>
__device__ __forceinline__ Stats<ComputeOf<In>> VectorsStats(const uint4 (&v)[kMany], int skip, Lanes lanes,
                                                             const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  const C max = LaneMax(LaneMaximum<In, kMany, true>(v, 0, lanes), lanes.count);
  const ExpBase<C> base(max, scale);
  C sums[Element<In>::kVector];
  LaneExpSums<In, kMany, true, true>(v, 0, lanes, base, scale, sums);
  if constexpr (kSkew) RotateSums<In>(skip, lanes, sums);
  return {max, static_cast<C>(LaneSum(PlacesSum(sums), lanes.count) * base.correction)};
}

// The largest of each of a warp's maxima, and the sums of their totals: the lanes' exchanges are on their way together.
template <int kCount, typename C>
__device__ __forceinline__ void WarpMaxima(Stats<C> (&stats)[kCount]) {
  if constexpr (kHasWarpMax<C>) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) stats[i].max = LaneMax(stats[i].max, 32);
  } else {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        stats[i].max = Larger(stats[i].max, __shfl_xor_sync(0xffffffffu, stats[i].max, offset));
      }
    }
  }
}
template <int kCount, typename C>
__device__ __forceinline__ void WarpSums(double (&totals)[kCount], const C (&corrections)[kCount],
                                         Stats<C> (&stats)[kCount]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) totals[i] += __shfl_xor_sync(0xffffffffu, totals[i], offset);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) stats[i].sum = static_cast<C>(totals[i] * corrections[i]);
}

// The statistics of a row's first vectors; `valid` are all of its columns that count, or kManyColumns where few of them
// want no more care: for softmax. A whole warp calls it.
template <typename In, int kMany, bool kSkew, bool kNarrow>
__device__ __forceinline__ RowStats<ComputeOf<In>> FirstVectorsStats(const uint4 (&v)[kMany], int skip,
                                                                     std::int64_t valid, Lanes lanes,
                                                                     const Scale<ComputeOf<In>>& scale) {
  const auto stats = VectorsStats<In, kMany, kSkew>(v, skip, lanes, scale);
  // Lanes without a row have no columns: care for them would keep a launch's last warp long. (Doubles would spill.)
  const bool precise = (sizeof(In) == 8 || valid != 0) && valid <= kPreciseColumns;
  if (__any_sync(0xffffffffu, precise)) {
    const auto better = PreciseStats<In, kNarrow>(v, lanes, scale);
    if (precise) return better;
  }
  return stats;
}

template <typename In, int kSlots, bool kSkew>
class RowPart {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kCount = kSlots + (kSkew ? 1 : 0);

  // Where a stretch lies.
  struct Place {
    const In* base;  // the boundary at or before its first column
    int skip;        // columns from there to the first column
    int end;         // elements from there on that count
    bool whole;      // all its vectors may be read whole
    Around around;
  };

  // `p`: the stretch's first column; `n`: columns from there to the end of what counts.
  __device__ __forceinline__ static Place PlaceOf(const In* p, std::int64_t n, Around around, Lanes lanes) {
    Place place;
    place.skip = kSkew ? Misalignment(p) : 0;
    place.base = p - place.skip;
    place.around = around;
    // The columns before the stretch in its first vector count even where the stretch itself has none.
    const std::int64_t end = n + place.skip;
    place.end = end <= 0 ? 0 : end < Most(lanes) ? static_cast<int>(end) : Most(lanes);
    place.whole = (place.skip == 0 || around.before) && (place.end % kVector == 0 || around.after);
    return place;
  }

  __device__ __forceinline__ void Load(const Place& place, Lanes lanes) {
    if (place.whole) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        w_[j] = NothingVector<In>();
        if (Holds(place, j, lanes)) w_[j] = *reinterpret_cast<const uint4*>(place.base + At(j, lanes));
      }
    } else {
      LoadAligned<kSlots>(place.base, place.skip, place.end, place.around, lanes, w_);
    }
    skip_ = place.skip;
    if constexpr (kSkew) before_ = BlendMask(lanes.lane == 0 ? skip_ * static_cast<int>(sizeof(In)) : 0);
    if (place.end == Most(lanes)) return;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (place.end < At(j, lanes) + kVector) w_[j] = MaskFrom<In>(w_[j], place.end - At(j, lanes));
    }
  }

  // The statistics of vectors [first, first + kMany) of each lane, as counted from the first column.
  template <int kMany>
  __device__ __forceinline__ Stats<C> ChunkStats(int first, Lanes lanes, const Scale<C>& scale) const {
    uint4 v[kMany];
    Vectors(first, v);
    return VectorsStats<In, kMany, kSkew>(v, skip_, lanes, scale);
  }
  // Those of the first vectors of a row, as FirstVectorsStats() has them.
  template <int kMany, bool kNarrow = false>
  __device__ __forceinline__ RowStats<C> FirstStats(std::int64_t valid, Lanes lanes, const Scale<C>& scale) const {
    uint4 v[kMany];
    Vectors(0, v);
    return FirstVectorsStats<In, kMany, kSkew, kNarrow>(v, skip_, valid, lanes, scale);
  }

  // The vectors [first, first + kMany) of each lane, as counted from the first column.
  template <int kMany>
  __device__ __forceinline__ void Vectors(int first, uint4 (&v)[kMany]) const {
#pragma unroll
    for (int j = 0; j < kMany; ++j) {
      v[j] = w_[first + j];
      if constexpr (kSkew) v[j] = before_.Blend(v[j], w_[first + j + 1]);
    }
  }
  // Columns from the boundary before the stretch to its first.
  __device__ __forceinline__ int skip() const { return skip_; }

  // The statistics of a whole row, with the exponentials of all elements that it holds: where the row is one part, they
  // are its results but for a factor.
  __device__ __forceinline__ Stats<C> Exponentials(Lanes lanes, const Scale<C>& scale,
                                                   C (&y)[kCount][Element<In>::kVector]) const {
    uint4 v[kSlots];
    Vectors(0, v);
    const C max = LaneMax(LaneMaximum<In, kSlots, true>(v, 0, lanes), lanes.count);
    const ExpBase<C> base(max, scale);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      Unpack<In>(w_[j], y[j]);
#pragma unroll
      for (int e = 0; e < kVector; ++e) y[j][e] = base.Exp(y[j][e], scale);
    }
    C sums[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      const bool is_before = kSkew && lanes.lane == 0 && e < skip_;
#pragma unroll
      for (int j = 0; j < kSlots; ++j) {
        const C term = is_before ? y[j + (kSkew ? 1 : 0)][e] : y[j][e];
        sums[e] = j == 0 ? term : sums[e] + term;
      }
    }
    if constexpr (kSkew) RotateSums<In>(skip_, lanes, sums);
    return {max, static_cast<C>(LaneSum(PlacesSum(sums), lanes.count) * base.correction)};
  }

  // Call it between the statistics and Store().
  __device__ __forceinline__ void Forget() {
#pragma unroll
    for (int j = 0; j < kCount; ++j) Opaque(w_[j]);
  }

  // Stores the results of `n` columns, of which `valid` are not masked, both counted from the part's first column.
  // `row_first`: the part begins the row, so what lies before it is another's.
  __device__ __forceinline__ void Store(In* p, std::int64_t n, std::int64_t valid, bool row_first, Lanes lanes,
                                        const Normalizer<C>& normalize) const {
    StoreResults(p, n, valid, row_first, lanes,
                 [&](int j, int left) { return VectorResults<In, true>(w_[j], left, normalize); });
  }
  // The same as elements of another type. A whole warp calls it; lanes without a row have no columns. kExchanges: see
  // core/mixed_store.cuh; it takes registers.
  template <bool kExchanges, typename Out>
  __device__ __forceinline__ void StoreMixed(Out* p, int n, int valid, bool row_first, Lanes lanes,
                                             const Normalizer<C>& normalize) const {
    Out* const base = p - skip_;
    const int begin = row_first ? skip_ : 0;
    const int end = n > 0 ? n + skip_ : 0;
    const bool ends_here = n <= kSlots * lanes.count * kVector;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const bool is_extra = j == kSlots;  // which only lane 0 has
      const int at = is_extra ? kSlots * lanes.count * kVector : At(j, lanes);
      C x[kVector];
      ComputeResults<In, true>(w_[j], valid + skip_ - at, normalize, x);
      if (kExchanges && !is_extra && lanes.count > 1) {
        cuda::StoreMixed<In, true, false>(base, at, begin, end, x);
      } else if (!is_extra || (lanes.lane == 0 && ends_here)) {
        cuda::StoreMixed<In, false, false>(base, at, begin, end, x);
      }
    }
  }
  // As Store(), for a whole row's exponentials.
  __device__ __forceinline__ void StoreProducts(In* p, std::int64_t n, std::int64_t valid, Lanes lanes,
                                                const Normalizer<C>& normalize,
                                                C (&y)[kCount][Element<In>::kVector]) const {
    StoreResults(p, n, valid, true, lanes, [&](int j, int left) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) y[j][e] = e < left ? y[j][e] * normalize.factor : normalize.masked;
      return Pack<In>(y[j]);
    });
  }

 private:
  // result(j, left) gives the results of vector j, of which the first `left` elements are not masked.
  template <typename F>
  __device__ __forceinline__ void StoreResults(In* p, std::int64_t n, std::int64_t valid, bool row_first, Lanes lanes,
                                               F result) const {
    constexpr int kFar = 1 << 30;
    In* const base = p - skip_;
    const int from = row_first ? skip_ : 0;
    const int end = n < kFar ? static_cast<int>(n) + skip_ : kFar;
    const int valid_end = valid <= -kVector ? 0 : valid < kFar ? static_cast<int>(valid) + skip_ : kFar;
    // The vector after the last slot belongs to the next part, unless the row ends in it.
    const bool ends_here = n <= kSlots * lanes.count * kVector;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int at = At(j, lanes);
      if (at >= end || (j == kSlots && (lanes.lane != 0 || !ends_here))) continue;
      const uint4 y = result(j, valid_end - at);
      if (at >= from && at + kVector <= end) {
        *reinterpret_cast<uint4*>(base + at) = y;
      } else {
        StoreRange(base + at, y, from - at, end - at);
      }
    }
  }

  __device__ static int Most(Lanes lanes) { return (kSlots * lanes.count + (kSkew ? 1 : 0)) * kVector; }
  __device__ static int At(int j, Lanes lanes) { return (j * lanes.count + lanes.lane) * kVector; }
  __device__ static bool Holds(const Place& place, int j, Lanes lanes) {
    return At(j, lanes) < place.end && (j < kSlots || lanes.lane == 0);
  }

  uint4 w_[kCount];
  BlendMask before_{0};  // lane 0: the bytes of a vector before `skip`
  int skip_ = 0;
};

}  // namespace softmax::kernels::cuda
