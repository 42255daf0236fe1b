#include "kernels/bench/point.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kernels/operations.h"

namespace softmax::kernels::bench {
namespace {

constexpr char kTopSign[] = "+top";

std::vector<std::int64_t> RaggedWidths(const Point& point, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int64_t> widths(static_cast<std::size_t>(point.rows));
  for (std::int64_t& width : widths) width = random.LogUniform(point.least_cols, point.cols);
  return widths;
}

Segment Dense(const Point& point, std::int64_t rows, std::int64_t cols, std::int64_t start, const void* input,
              void* output) {
  Segment segment;
  segment.input = static_cast<const char*>(input) + start * static_cast<std::int64_t>(SizeOf(point.dtype));
  segment.output = static_cast<char*>(output) + start * static_cast<std::int64_t>(SizeOf(point.output_dtype));
  segment.outer = rows;
  segment.cols = cols;
  segment.input_stride = cols;
  segment.output_stride = cols;
  segment.operation = point.operation;
  return segment;
}

}  // namespace

const char* NameOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return "fp32";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kBFloat16:
      return "bf16";
    case DataType::kFloat64:
      return "fp64";
  }
  return "?";
}

const char* NameOf(Lengths lengths) {
  switch (lengths) {
    case Lengths::kNone:
      return "none";
    case Lengths::kFull:
      return "full";
    case Lengths::kHalf:
      return "half";
    case Lengths::kEighth:
      return "eighth";
    case Lengths::kDrawn:
      return "drawn";
  }
  return "?";
}

std::optional<Lengths> ParseLengths(const std::string& name) {
  for (const Lengths lengths : {Lengths::kFull, Lengths::kHalf, Lengths::kEighth, Lengths::kDrawn}) {
    if (name == NameOf(lengths)) return lengths;
  }
  return std::nullopt;
}

std::string TypesOf(const Point& point) {
  const std::string name = NameOf(point.dtype);
  return point.mixed() ? name + ">" + NameOf(point.output_dtype) : name;
}

std::string OperationOf(const Point& point) {
  const std::string name = TraitsOf(point.operation).name;
  return point.top_k == 0 ? name : name + kTopSign + std::to_string(point.top_k);
}

std::optional<DataType> ParseDataType(const std::string& name) {
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    if (name == NameOf(dtype)) return dtype;
  }
  return std::nullopt;
}

std::optional<std::pair<DataType, DataType>> ParseTypes(const std::string& name) {
  const std::size_t arrow = name.find('>');
  const auto input = ParseDataType(name.substr(0, arrow));
  const auto output = arrow == std::string::npos ? input : ParseDataType(name.substr(arrow + 1));
  if (!input || !output) return std::nullopt;
  return std::pair(*input, *output);
}

bool ParseOperation(const std::string& name, Point* point) {
  const std::size_t sign = name.find(kTopSign);
  const std::string operation = name.substr(0, sign);
  const OperationTraits* const traits = FindOperation(operation);
  if (traits == nullptr) return false;
  point->operation = traits->operation;
  point->top_k = 0;
  if (sign == std::string::npos) return true;
  const char* const first = name.data() + sign + std::char_traits<char>::length(kTopSign);
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(first, last, point->top_k);
  return error == std::errc() && end == last && point->top_k >= 1 && point->top_k <= kMaxTopK;
}

std::string Key(const Point& point, const std::string& provider) {
  return point.section + "," + TypesOf(point) + "," + OperationOf(point) + "," + std::to_string(point.rows) + "," +
         std::to_string(point.cols) + "," + provider;
}

std::uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::int64_t Random::LogUniform(std::int64_t least, std::int64_t most) {
  const double unit = static_cast<double>(Next() >> 11) * 0x1p-53;
  const double factor = static_cast<double>(most + 1) / static_cast<double>(least);
  const auto drawn = static_cast<std::int64_t>(static_cast<double>(least) * std::exp(unit * std::log(factor)));
  return std::clamp(drawn, least, most);
}

std::vector<Segment> MakeSegments(const Point& point, std::uint64_t seed, const void* input, void* output) {
  std::vector<Segment> segments;
  if (point.ragged()) {
    std::int64_t start = 0;
    for (const std::int64_t width : RaggedWidths(point, seed)) {
      segments.push_back(Dense(point, 1, width, start, input, output));
      start += width;
    }
    return segments;
  }
  const std::int64_t rows = point.outer() / point.segments;
  for (std::int64_t i = 0; i < point.segments; ++i) {
    Segment segment = Dense(point, rows, point.cols, i * rows * point.outer_stride(), input, output);
    segment.inner = point.inner;
    segment.input_stride = point.outer_stride();
    segment.output_stride = point.outer_stride();
    segments.push_back(segment);
  }
  return segments;
}

std::vector<std::uint32_t> MakeLengths(const Point& point, std::uint64_t seed) {
  const std::int64_t part = point.lengths == Lengths::kFull ? 1 : point.lengths == Lengths::kHalf ? 2 : 8;
  const std::int64_t share = std::max<std::int64_t>(1, point.cols / part);
  std::vector<std::uint32_t> lengths(static_cast<std::size_t>(point.rows), static_cast<std::uint32_t>(share));
  if (point.lengths != Lengths::kDrawn) return lengths;
  Random random(seed);
  for (std::uint32_t& length : lengths) {
    length = static_cast<std::uint32_t>(random.Next() % static_cast<std::uint64_t>(point.cols) + 1);
  }
  return lengths;
}

std::int64_t SpanElements(const Point& point, std::uint64_t seed) {
  return point.ragged() ? PayloadElements(point, seed)
                        : (point.outer() - 1) * point.outer_stride() + point.cols * point.inner;
}

std::int64_t PayloadElements(const Point& point, std::uint64_t seed) {
  if (!point.ragged()) return point.rows * point.cols;
  std::int64_t elements = 0;
  for (const std::int64_t width : RaggedWidths(point, seed)) elements += width;
  return elements;
}

AnswerLayout AnswerLayoutOf(const Point& point) {
  const auto rows = static_cast<std::size_t>(point.rows);
  const std::size_t top = rows * static_cast<std::size_t>(point.top_k);
  const std::size_t number = point.dtype == DataType::kFloat64 ? 8 : 4;
  AnswerLayout layout;
  const auto place = [&layout](std::size_t bytes) {
    const std::size_t start = (layout.bytes + 7) / 8 * 8;
    layout.bytes = start + bytes;
    return start;
  };
  layout.top_values = place(top * SizeOf(point.output_dtype));
  layout.top_indices = place(top * sizeof(std::int32_t));
  layout.log_sum_exp = place(rows * number);
  layout.maximum = place(rows * number);
  return layout;
}

}  // namespace softmax::kernels::bench
