#include "client/loadgen/plan/mix.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <charconv>
#include <cmath>
#include <string_view>

namespace softmax::client {
namespace {

// Takes ":WEIGHT" off the end of the text, where there is one.
bool TakeWeight(absl::string_view* text, double* weight) {
  const std::size_t colon = text->find(':');
  if (colon == absl::string_view::npos) return true;
  const absl::string_view digits = text->substr(colon + 1);
  *text = text->substr(0, colon);
  return absl::SimpleAtod(digits, weight) && std::isfinite(*weight) && *weight > 0;
}

template <typename T>
std::optional<Weighted<T>> ParseWeighted(absl::string_view text, std::optional<T> (*parse)(std::string_view)) {
  double weight = 1;
  if (!TakeWeight(&text, &weight)) return std::nullopt;
  const std::optional<T> value = parse(std::string(text));
  if (!value) return std::nullopt;
  return Weighted<T>{*value, weight};
}

template <typename T>
std::string Joined(const std::vector<Weighted<T>>& values) {
  std::string text;
  for (const Weighted<T>& value : values)
    absl::StrAppend(&text, text.empty() ? "" : "+", std::string(NameOf(value.value)));
  return text;
}

std::string DrawnName(const Mix& mix) {
  return absl::StrCat(mix.rows ? mix.rows->text() : "1", " x ", mix.columns ? mix.columns->text() : "1024");
}

}  // namespace

std::optional<ShapeSpec> ParseShape(const std::string& text) {
  ShapeSpec spec;
  absl::string_view dimensions = text;
  if (!TakeWeight(&dimensions, &spec.weight)) return std::nullopt;
  const char* at = dimensions.data();
  const char* const end = at + dimensions.size();
  for (;;) {
    std::int64_t dimension = 0;
    const auto [next, error] = std::from_chars(at, end, dimension);
    if (error != std::errc() || dimension < 1) return std::nullopt;
    spec.shape.push_back(dimension);
    at = next;
    if (at == end || *at != 'x') break;
    ++at;
  }
  if (at != end || spec.shape.size() > kMaxRank) return std::nullopt;
  const auto elements = ElementsOf(spec.shape);
  // protobuf's own limit on a message is 2 GiB.
  if (!elements || *elements > (std::uint64_t{1} << 31) / 8) return std::nullopt;
  return spec;
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(dimension);
  }
  return text;
}

std::optional<ShapeSpec> ShapeForPayload(std::uint64_t bytes, DataType dtype) {
  const std::uint64_t size = SizeOf(dtype);
  if (bytes == 0 || bytes % size != 0 || bytes > (std::uint64_t{1} << 30)) return std::nullopt;
  const std::uint64_t elements = bytes / size;
  std::uint64_t cols = 1024;
  while (cols > 1 && elements % cols != 0) cols /= 2;
  if (elements < 1024 || cols < 16) cols = elements;
  return ShapeSpec{{static_cast<std::int64_t>(elements / cols), static_cast<std::int64_t>(cols)}, 1};
}

std::optional<Weighted<DataType>> ParseWeightedType(absl::string_view text) {
  return ParseWeighted<DataType>(text, DataTypeFromName);
}

std::optional<Weighted<Operation>> ParseWeightedOperation(absl::string_view text) {
  return ParseWeighted<Operation>(text, OperationFromName);
}

std::vector<RequestClass> ClassesOf(const Mix& mix) {
  std::vector<RequestClass> classes;
  const std::size_t shapes = mix.shapes.empty() ? 1 : mix.shapes.size();
  for (std::size_t s = 0; s < shapes; ++s) {
    for (const auto& dtype : mix.dtypes) {
      for (const auto& operation : mix.operations) {
        RequestClass made;
        made.shape_index = s;
        made.dtype = dtype.value;
        made.operation = operation.value;
        made.weight = dtype.weight * operation.weight;
        made.name = DrawnName(mix);
        if (!mix.shapes.empty()) {
          made.shape = mix.shapes[s].shape;
          made.weight *= mix.shapes[s].weight;
          made.name = ShapeText(made.shape);
        }
        if (mix.dtypes.size() > 1) absl::StrAppend(&made.name, " ", std::string(NameOf(dtype.value)));
        if (mix.operations.size() > 1) absl::StrAppend(&made.name, " ", std::string(NameOf(operation.value)));
        classes.push_back(std::move(made));
      }
    }
  }
  return classes;
}

std::string TypesText(const Mix& mix) { return Joined(mix.dtypes); }
std::string OperationsText(const Mix& mix) { return Joined(mix.operations); }

}  // namespace softmax::client
