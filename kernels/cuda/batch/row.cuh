#pragma once

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/core/part.cuh"

// The rows of a batch's units, as the table has them.
namespace softmax::kernels::cuda {

// 16 bytes that the host wrote before the launch, past the first cache: blocks may come while an earlier launch works.
// Past the second one too (__ldcv) a batch's first units took 4 to 7 us, as each load is then a trip over the bus.
template <typename T>
__device__ __forceinline__ T ReadHost(const T* from) {
  static_assert(sizeof(T) == sizeof(uint4), "read as one vector");
  const uint4 words = __ldcg(reinterpret_cast<const uint4*>(from));
  T value;
  memcpy(&value, &words, sizeof(value));
  return value;
}

// The segment of a unit's table that holds a row.
__device__ __forceinline__ int FindRow(const BatchSegment* segments, int count, std::uint32_t row) {
  int begin = 0;
  while (count > 1) {
    const int half = count / 2;
    if (segments[begin + half].first_row <= row) begin += half;
    count -= half;
  }
  return begin;
}

// A row of a segment.
template <typename In>
struct BatchRow {
  const In* input;
  char* output;  // of the launch's output type
  std::uint32_t cols;
  std::uint32_t valid;
  Around around;  // of the first column

  __device__ __forceinline__ BatchRow(const BatchParams& params, const BatchSegment& segment, std::uint32_t global_row)
      : cols(segment.cols), valid(segment.cols) {
    const std::int64_t row = global_row - segment.first_row;
    std::int64_t input_stride = cols;
    std::int64_t output_stride = cols;
    if (segment.extra != 0) {
      const std::uint32_t index = segment.extra - 1;
      const BatchExtra extra = params.extras != nullptr ? ReadHost(params.extras + index) : params.inline_extras[index];
      input_stride = extra.input_stride;
      output_stride = extra.output_stride;
      if (extra.lengths != nullptr) valid = min(extra.lengths[row], cols);
    }
    input = static_cast<const In*>(segment.input) + row * input_stride;
    output = static_cast<char*>(segment.output) + row * output_stride * params.output_bytes;
    around.before = row * input_stride >= Element<In>::kVector;
    around.after = (segment.rows - 1 - row) * input_stride + cols - valid >= Element<In>::kVector;
  }
  __device__ __forceinline__ explicit BatchRow(const BatchSingle& single)
      : input(reinterpret_cast<const In*>(single.input & kAddressMask)),
        output(reinterpret_cast<char*>(single.output & kAddressMask)),
        cols(static_cast<std::uint32_t>(single.input >> kAddressBits) |
             static_cast<std::uint32_t>(single.output >> kAddressBits) << 16),
        valid(cols),
        around{false, false} {}

  // What may be read around the row's elements from `column` on.
  __device__ __forceinline__ Around AroundFrom(std::int64_t column) const {
    return {around.before || column >= Element<In>::kVector, around.after};
  }
};

// Calls f with a row's output: of In's type, or (kMixed) of the other that the launch names.
template <typename In, bool kMixed, typename F>
__device__ __forceinline__ void ForRowOutput(DataType type, const BatchRow<In>& row, F f) {
  ForOutputType<In, !kMixed>(type, [&](auto* null) { f(reinterpret_cast<decltype(null)>(row.output)); });
}

// The rows of a unit, whose part of the table is in shared memory.
template <typename In>
class UnitRows {
 public:
  __device__ __forceinline__ UnitRows(const BatchParams& params, const BatchUnit& unit, const BatchSegment* segments)
      : params_(params), unit_(unit), segments_(segments) {}

  // Where the unit's row r stands in the table.
  __device__ __forceinline__ int Find(std::uint32_t r) const {
    if (params_.singles != nullptr) return static_cast<int>(r);
    return FindRow(segments_, unit_.segments, unit_.first_row + r);
  }
  // Row r, which stands at `place`.
  __device__ __forceinline__ BatchRow<In> At(int place, std::uint32_t r) const {
    if (params_.singles != nullptr) return BatchRow<In>(reinterpret_cast<const BatchSingle*>(segments_)[place]);
    return BatchRow<In>(params_, segments_[place], unit_.first_row + r);
  }
  __device__ __forceinline__ BatchRow<In> At(std::uint32_t r) const { return At(Find(r), r); }
  __device__ __forceinline__ int count() const { return unit_.rows; }
  __device__ __forceinline__ DataType output_type() const { return params_.output_type; }

 private:
  const BatchParams& params_;
  const BatchUnit& unit_;
  const BatchSegment* const segments_;
};

}  // namespace softmax::kernels::cuda
