#include "client/loadgen/plan/mix.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace softmax::client {
namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;
constexpr std::int64_t kMaxZipfValues = 1 << 20;

// In [0, 1), with the generator's upper 53 bits: the same on every machine.
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

bool ParseDimension(absl::string_view text, std::int64_t* out) {
  return absl::SimpleAtoi(text, out) && *out >= 1 && *out <= kMaxDimension;
}

// Takes ":WEIGHT" off the end of the text, where there is one.
bool TakeWeight(absl::string_view* text, double* weight) {
  const std::size_t colon = text->find(':');
  if (colon == absl::string_view::npos) return true;
  const absl::string_view digits = text->substr(colon + 1);
  *text = text->substr(0, colon);
  return absl::SimpleAtod(digits, weight) && std::isfinite(*weight) && *weight > 0;
}

std::optional<SummaryOptions> AnswerFromName(std::string_view name) {
  SummaryOptions answer;
  if (name == "tensor") return answer;
  for (const absl::string_view part : absl::StrSplit(absl::string_view(name.data(), name.size()), '+')) {
    if (part == "log-sum-exp" && !answer.log_sum_exp) {
      answer.log_sum_exp = true;
    } else if (part == "entropy" && !answer.entropy) {
      answer.entropy = true;
    } else if (answer.top_k != 0 || !absl::StartsWith(part, "top") ||
               !absl::SimpleAtoi(part.substr(3), &answer.top_k) || answer.top_k == 0) {
      return std::nullopt;
    }
  }
  return answer;
}

std::optional<Shape> ShapeFromText(std::string_view text) {
  Shape shape;
  for (const absl::string_view part : absl::StrSplit(absl::string_view(text.data(), text.size()), 'x')) {
    if (!absl::SimpleAtoi(part, &shape.emplace_back()) || shape.back() < 1) return std::nullopt;
  }
  if (shape.size() > kMaxRank) return std::nullopt;
  const auto elements = ElementsOf(shape);
  // protobuf's own limit on a message is 2 GiB.
  if (!elements || *elements > (std::uint64_t{1} << 31) / 8) return std::nullopt;
  return shape;
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
  return absl::StrJoin(values, "+", [](std::string* out, const auto& value) { *out += NameOf(value.value); });
}

std::string DrawnName(const Mix& mix) {
  return absl::StrCat(mix.rows ? mix.rows->text() : "1", " x ", mix.columns ? mix.columns->text() : "1024");
}

}  // namespace

std::optional<Weighted<Shape>> ParseShape(absl::string_view text) { return ParseWeighted<Shape>(text, ShapeFromText); }

std::string ShapeText(const Shape& shape) { return absl::StrJoin(shape, "x"); }

std::optional<Weighted<Shape>> ShapeForPayload(std::uint64_t bytes, DataType dtype) {
  const std::uint64_t size = SizeOf(dtype);
  if (bytes == 0 || bytes % size != 0 || bytes > (std::uint64_t{1} << 30)) return std::nullopt;
  const std::uint64_t elements = bytes / size;
  std::uint64_t cols = 1024;
  while (cols > 1 && elements % cols != 0) cols /= 2;
  if (elements < 1024 || cols < 16) cols = elements;
  return Weighted<Shape>{{static_cast<std::int64_t>(elements / cols), static_cast<std::int64_t>(cols)}, 1};
}

std::optional<Weighted<DataType>> ParseWeightedType(absl::string_view text) {
  return ParseWeighted<DataType>(text, DataTypeFromName);
}

std::optional<Weighted<Operation>> ParseWeightedOperation(absl::string_view text) {
  return ParseWeighted<Operation>(text, OperationFromName);
}

std::optional<Weighted<SummaryOptions>> ParseWeightedAnswer(absl::string_view text) {
  return ParseWeighted<SummaryOptions>(text, AnswerFromName);
}

std::string NameOf(const SummaryOptions& answer) {
  std::vector<std::string> parts;
  if (answer.top_k > 0) parts.push_back(absl::StrCat("top", answer.top_k));
  if (answer.log_sum_exp) parts.emplace_back("log-sum-exp");
  if (answer.entropy) parts.emplace_back("entropy");
  return parts.empty() ? "tensor" : absl::StrJoin(parts, "+");
}

absl::StatusOr<Distribution> Distribution::Parse(absl::string_view text) {
  const auto wrong = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(text, ": ", why)); };
  const std::vector<absl::string_view> words = absl::StrSplit(text, ':');
  Distribution made;
  made.text_ = std::string(text);
  const bool bare = words.size() == 1;
  if (bare || (words[0] == "fixed" && words.size() == 2)) {
    if (!ParseDimension(words.back(), &made.low_)) return wrong("expected a dimension from 1 to 2147483648");
    made.high_ = made.low_;
    return made;
  }
  double exponent = 0;
  if (words[0] == "uniform" && words.size() == 3) {
    made.kind_ = Kind::kUniform;
  } else if (words[0] == "loguniform" && words.size() == 3) {
    made.kind_ = Kind::kLogUniform;
  } else if (words[0] == "zipf" && words.size() == 4) {
    made.kind_ = Kind::kZipf;
    if (!absl::SimpleAtod(words[1], &exponent) || !(exponent > 0 && exponent <= 10)) {
      return wrong("the exponent of zipf must be above 0 and at most 10");
    }
  } else {
    return wrong("expected N, fixed:N, uniform:LO:HI, loguniform:LO:HI or zipf:EXPONENT:LO:HI");
  }
  const std::size_t at = words.size() - 2;
  if (!ParseDimension(words[at], &made.low_) || !ParseDimension(words[at + 1], &made.high_) || made.low_ > made.high_) {
    return wrong("the bounds must be from 1 to 2147483648, the lower one first");
  }
  if (made.kind_ != Kind::kZipf) return made;
  const std::int64_t values = made.high_ - made.low_ + 1;
  if (values > kMaxZipfValues) return wrong(absl::StrCat("zipf takes at most ", kMaxZipfValues, " values"));
  double sum = 0;
  for (std::int64_t k = 1; k <= values; ++k) {
    sum += std::pow(static_cast<double>(k), -exponent);
    made.cumulative_.push_back(sum);
  }
  return made;
}

std::int64_t Distribution::Draw(std::mt19937_64& random) const {
  const double u = Uniform(random);
  const auto low = static_cast<double>(low_);
  const auto high = static_cast<double>(high_);
  std::int64_t value = low_;
  switch (kind_) {
    case Kind::kUniform:
      value += static_cast<std::int64_t>(u * (high - low + 1));
      break;
    case Kind::kLogUniform:
      // Over [low, high + 1), so that the last value has its share too.
      value = static_cast<std::int64_t>(std::exp(std::log(low) + u * (std::log(high + 1) - std::log(low))));
      break;
    case Kind::kZipf:
      value += std::upper_bound(cumulative_.begin(), cumulative_.end(), u * cumulative_.back()) - cumulative_.begin();
      break;
  }
  return std::clamp(value, low_, high_);
}

std::vector<RequestClass> ClassesOf(const Mix& mix) {
  std::vector<RequestClass> classes;
  const std::size_t shapes = mix.shapes.empty() ? 1 : mix.shapes.size();
  const std::size_t kinds = mix.dtypes.size() * mix.operations.size() * mix.answers.size();
  for (std::size_t i = 0; i < shapes * kinds; ++i) {
    const auto& answer = mix.answers[i % mix.answers.size()];
    const auto& operation = mix.operations[i / mix.answers.size() % mix.operations.size()];
    const auto& dtype = mix.dtypes[i / (mix.answers.size() * mix.operations.size()) % mix.dtypes.size()];
    RequestClass made;
    made.shape_index = i / kinds;
    made.dtype = dtype.value;
    made.operation = operation.value;
    made.answer = answer.value;
    made.weight = dtype.weight * operation.weight * answer.weight;
    made.name = DrawnName(mix);
    if (!mix.shapes.empty()) {
      const auto& shape = mix.shapes[made.shape_index];
      made.shape = shape.value;
      made.weight *= shape.weight;
      made.name = ShapeText(made.shape);
    }
    if (mix.dtypes.size() > 1) absl::StrAppend(&made.name, " ", std::string(NameOf(dtype.value)));
    if (mix.operations.size() > 1) absl::StrAppend(&made.name, " ", std::string(NameOf(operation.value)));
    if (mix.answers.size() > 1) absl::StrAppend(&made.name, " ", NameOf(answer.value));
    classes.push_back(std::move(made));
  }
  return classes;
}

std::string TypesText(const Mix& mix) { return Joined(mix.dtypes); }
std::string OperationsText(const Mix& mix) { return Joined(mix.operations); }

std::string AnswersText(const Mix& mix) {
  return absl::StrJoin(mix.answers, " or ",
                       [](std::string* out, const auto& answer) { absl::StrAppend(out, NameOf(answer.value)); });
}

std::string AskedText(const Mix& mix) {
  const bool tensors = mix.answers.size() == 1 && !mix.answers[0].value.any();
  return OperationsText(mix) + (tensors ? "" : " " + AnswersText(mix));
}

}  // namespace softmax::client
