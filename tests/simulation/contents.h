#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/wire/tensor_spec.h"
#include "server/batching/batch.h"

// What requests contain and what the simulated devices make of it: cheap, and different for every request, element,
// type, operation, scale and length, so that whatever is mixed up is seen.
namespace softmax::simulation {

inline std::uint64_t ElementOf(std::uint32_t id, std::uint64_t index) {
  return (std::uint64_t{id} << 20 ^ index) * 0x9E3779B97F4A7C15u >> 8;
}

// The length of a row with lengths.
inline std::uint32_t LengthOf(std::uint32_t id, std::int64_t row, std::int64_t columns) {
  return static_cast<std::uint32_t>(ElementOf(id, 77 + static_cast<std::uint64_t>(row)) %
                                    (static_cast<std::uint64_t>(columns) + 1));
}

inline std::uint64_t AnswerTo(std::uint64_t element, kernels::Operation operation, double scale, std::uint64_t length) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &scale, sizeof(bits));
  return element * 3 + (static_cast<std::uint64_t>(operation) << 4) + (bits >> 50) + length;
}

// Elements as words of their size.
template <typename Word>
Word Load(const std::byte* base, std::uint64_t index) {
  Word word;
  std::memcpy(&word, base + index * sizeof(word), sizeof(word));
  return word;
}
template <typename Word>
void Store(std::byte* base, std::uint64_t index, std::uint64_t value) {
  const auto word = static_cast<Word>(value);
  std::memcpy(base + index * sizeof(word), &word, sizeof(word));
}
// `f` of a word of that size.
template <typename F>
auto WithWord(kernels::DataType type, F f) {
  switch (kernels::SizeOf(type)) {
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

// Rows are short but for a few: of a long one, every 31st element stands for its neighbours.
inline std::int64_t NextColumn(std::int64_t column) { return column < 32 ? column + 1 : column + 31; }

template <typename In, typename Out>
void RunSegment(const kernels::Segment& segment) {
  const auto* const input = static_cast<const std::byte*>(segment.input);
  auto* const output = static_cast<std::byte*>(segment.output);
  for (std::int64_t row = 0; row < segment.outer; ++row) {
    const std::uint64_t length = segment.lengths == nullptr ? 0 : segment.lengths[row];
    for (std::int64_t column = 0; column < segment.cols; column = NextColumn(column)) {
      const auto at = static_cast<std::uint64_t>(row * segment.cols + column);
      Store<Out>(output, at, AnswerTo(Load<In>(input, at), segment.operation, segment.scale, length));
    }
  }
}

// What a device does.
inline void Run(const server::Batch& batch) {
  for (const kernels::Segment& segment : batch.segments()) {
    WithWord(batch.input_type(), [&](auto in) {
      WithWord(batch.output_type(), [&](auto out) { RunSegment<decltype(in), decltype(out)>(segment); });
    });
  }
}

}  // namespace softmax::simulation
