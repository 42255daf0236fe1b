#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "client/softmax_client/types.h"

// What kinds of requests a run sends and how often each.
namespace softmax::client {

// One kind of something, and how often it is sent relative to the others.
template <typename T>
struct Weighted {
  T value;
  double weight = 1;
};

using Shape = std::vector<std::int64_t>;

// "4096x1024", or "4096x1024:3" with a weight.
std::optional<Weighted<Shape>> ParseShape(absl::string_view text);
std::string ShapeText(const Shape& shape);

// The shape of a payload of `bytes`: rows of at most 1024 columns where the number of elements
// allows it.
std::optional<Weighted<Shape>> ShapeForPayload(std::uint64_t bytes, DataType dtype);

// "float32", or "float32:3" with a weight. Nothing: no such name, or a weight that is not above 0.
std::optional<Weighted<DataType>> ParseWeightedType(absl::string_view text);
std::optional<Weighted<Operation>> ParseWeightedOperation(absl::string_view text);

// "tensor", or parts of each row with + between: "top20+log-sum-exp+entropy"; with ":3" a weight. Nothing: neither, or
// a part twice.
std::optional<Weighted<SummaryOptions>> ParseWeightedAnswer(absl::string_view text);
std::string NameOf(const SummaryOptions& answer);

// A distribution of one dimension of a shape, from which a mix of requests is drawn. Immutable.
class Distribution {
 public:
  // "N" or "fixed:N"; "uniform:LO:HI"; "loguniform:LO:HI" (every octave equally likely); "zipf:EXPONENT:LO:HI" (the
  // k-th value from LO on has the weight k^-EXPONENT). Bounds are included, at least 1 and at most 2^31.
  static absl::StatusOr<Distribution> Parse(absl::string_view text);

  std::int64_t Draw(std::mt19937_64& random) const;

  std::int64_t max() const { return high_; }
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kUniform, kLogUniform, kZipf };

  Distribution() = default;

  Kind kind_ = Kind::kUniform;
  std::int64_t low_ = 1;
  std::int64_t high_ = 1;
  std::vector<double> cumulative_;  // zipf only
  std::string text_;
};

struct Mix {
  // Each shape with its weight; or, where it is empty, matrices of `rows` x `columns`, drawn one by one.
  std::vector<Weighted<Shape>> shapes;
  std::optional<Distribution> rows;
  std::optional<Distribution> columns;
  std::vector<Weighted<DataType>> dtypes = {{DataType::kFloat32}};
  std::vector<Weighted<Operation>> operations = {{Operation::kSoftmax}};
  std::vector<Weighted<SummaryOptions>> answers = {{SummaryOptions()}};  // without indices; nothing: the tensor
};

// One line of the report: what is sent with one weight and reported together.
struct RequestClass {
  std::string name;  // "64x1024", with type and operation where the mix has several
  std::size_t shape_index = 0;
  Shape shape;  // empty: drawn
  DataType dtype = DataType::kFloat32;
  Operation operation = Operation::kSoftmax;
  SummaryOptions answer;
  double weight = 1;
};

// Every shape with every type, operation and answer, the weights multiplied; in the order of the shapes.
std::vector<RequestClass> ClassesOf(const Mix& mix);

// "float32", or "float32+float16" where there are several.
std::string TypesText(const Mix& mix);
std::string OperationsText(const Mix& mix);
std::string AnswersText(const Mix& mix);
// The operations, and the answers where they are not whole tensors.
std::string AskedText(const Mix& mix);

}  // namespace softmax::client
