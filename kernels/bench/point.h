#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/types.h"

namespace softmax::kernels::bench {

// How much of each row counts, the rest being masked: by Segment::lengths, but with kNone.
enum class Lengths { kNone, kFull, kHalf, kEighth, kDrawn };  // kDrawn: evenly from 1 to all columns

// One shape to be measured: M rows of N columns, in one of the layouts of kernels/types.h.
struct Point {
  std::string section;                  // the first column of the results; cpu_* and host_* choose how it is run
  DataType dtype = DataType::kFloat32;  // of the input,
  DataType output_dtype = DataType::kFloat32;
  Operation operation = Operation::kSoftmax;
  std::int32_t top_k = 0;  // if not 0, of each row only so many of the largest, and the log of its sum of exponentials
  std::int64_t rows = 0;
  std::int64_t cols = 0;        // ragged: the widest row
  std::int64_t inner = 1;       // rows is a multiple of it
  std::int64_t stride = 0;      // elements from one outer block to the next; 0: dense
  std::int64_t segments = 1;    // the rows are dealt out evenly to so many segments of one launch
  std::int64_t least_cols = 0;  // ragged, if not 0: each row is a segment with a width from least_cols to cols
  Lengths lengths = Lengths::kNone;

  bool mixed() const { return output_dtype != dtype; }
  bool ragged() const { return least_cols > 0; }
  bool masked() const { return lengths != Lengths::kNone; }
  bool plain() const {
    return inner == 1 && segments == 1 && !ragged() && outer_stride() == cols && top_k == 0 && !masked();
  }
  std::int64_t outer() const { return rows / inner; }
  std::int64_t outer_stride() const { return stride != 0 ? stride : cols * inner; }
};

// The names used in suite files, on the command line and in the results.
const char* NameOf(DataType dtype);
// "fp32", or "bf16>fp32" where the output has another type.
std::string TypesOf(const Point& point);
// "softmax", or "softmax+top20" with top_k.
std::string OperationOf(const Point& point);
std::optional<DataType> ParseDataType(const std::string& name);
// The input's type and the output's, of what TypesOf() gives.
std::optional<std::pair<DataType, DataType>> ParseTypes(const std::string& name);
// Sets the operation and top_k to what OperationOf() gives; false where it gives no such thing.
bool ParseOperation(const std::string& name, Point* point);

// "full", "half", "eighth" or "drawn", as layouts name them.
const char* NameOf(Lengths lengths);
std::optional<Lengths> ParseLengths(const std::string& name);

// What tells one row of the results from another: "section,dtype,op,M,N,provider".
std::string Key(const Point& point, const std::string& provider);

// A sequence that every program reading the suites can make (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  // From least to most, both included, with equal weight for every factor.
  std::int64_t LogUniform(std::int64_t least, std::int64_t most);

 private:
  std::uint64_t state_;
};

// The segments of a point whose input and output start at these addresses.
std::vector<Segment> MakeSegments(const Point& point, std::uint64_t seed, const void* input, void* output);
// The length of each row of a masked point.
std::vector<std::uint32_t> MakeLengths(const Point& point, std::uint64_t seed);
// Elements from the first to the last one of the point's input, gaps included, and without gaps.
std::int64_t SpanElements(const Point& point, std::uint64_t seed);
std::int64_t PayloadElements(const Point& point, std::uint64_t seed);

// Where the answers of a point with top_k lie within its output, as offsets in bytes.
struct AnswerLayout {
  std::size_t top_values = 0;
  std::size_t top_indices = 0;
  std::size_t log_sum_exp = 0;
  std::size_t maximum = 0;
  std::size_t bytes = 0;  // of all of them
};
AnswerLayout AnswerLayoutOf(const Point& point);

}  // namespace softmax::kernels::bench
