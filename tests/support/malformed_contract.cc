#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/operations.h"
#include "tests/support/malformed.h"
#include "tests/support/wire_builder.h"

namespace softmax::testing {
namespace {

constexpr int kInvalidArgument = 3;
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
constexpr std::int32_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kInt32Min = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kSizes[] = {0, 4, 2, 2, 8};

using Cases = std::vector<MalformedCase>;
using Dims = std::vector<std::int64_t>;

void Bad(Cases* cases, std::string name, std::string bytes, std::string must_say) {
  cases->push_back({std::move(name), std::move(bytes), kInvalidArgument, std::move(must_say), false});
}
void Good(Cases* cases, std::string name, std::string bytes) {
  cases->push_back({std::move(name), std::move(bytes), 0, "", true});
}

std::string Text(const Dims& dims) {
  std::string out;
  for (const std::int64_t dim : dims) out += " " + std::to_string(dim);
  return out;
}

void AppendShapes(Cases* cases) {
  for (std::size_t rank = 1; rank <= 8; ++rank) {
    for (std::size_t at = 0; at < rank; ++at) {
      for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{-4}, kInt64Min}) {
        Dims dims(rank, 1);
        dims[at] = value;
        Bad(cases, "negative dimension," + Text(dims), Input(Tensor(1, dims, 4)),
            "input.shape: dimension " + std::to_string(at) + " is " + std::to_string(value));
      }
    }
  }
  for (const std::size_t rank : {0, 9, 10, 100, 10'000, 1'000'000}) {
    const Dims dims(rank, 1);
    const std::string says = rank > 1000 ? "has more than 1000 dimensions in one shape; must have at most 1000"
                                         : "input.shape: has rank " + std::to_string(rank) + "; must be 1 to 8";
    Bad(cases, "rank " + std::to_string(rank), Input(Tensor(1, dims, 4)), says);
    std::string unpacked;
    for (std::size_t i = 0; i < rank; ++i) unpacked += Scalar(2, 1);
    Bad(cases, "unpacked rank " + std::to_string(rank), Input(Dtype(1) + unpacked + Data(4)), says);
  }
  Bad(cases, "axis for rank 0", Scalar(3, 0) + Input(Dtype(1) + Data(4)), "input.shape: has rank 0");
}

void AppendOverflows(Cases* cases) {
  const std::int64_t two32 = std::int64_t{1} << 32;
  const Dims overflowing[] = {{kInt64Max},
                              {two32, two32},
                              {two32, two32, two32, two32},
                              {kInt64Max, kInt64Max},
                              {kInt64Max, 2},
                              {2, kInt64Max},
                              {3, 6148914691236517206},    // 3 * this = 2^64 + 2
                              {5, 3689348814741910324},    // 5 * this = 2^64 + 4
                              {std::int64_t{1} << 60, 1},  // 2^60 elements of 8 bytes: 2^63
                              {std::int64_t{1} << 62, 4},
                              Dims(8, 65536)};
  for (const Dims& dims : overflowing) {
    for (std::int64_t dtype = 1; dtype <= 4; ++dtype) {
      for (const std::size_t size : {0, 8}) {
        Bad(cases, "product overflows, dtype " + std::to_string(dtype) + "," + Text(dims),
            Input(Tensor(dtype, dims, size)), "input.shape: the product");
      }
    }
  }
  const Dims beside_zero[] = {{0, two32, two32}, {two32, 0, two32}, {two32, two32, 0},    {0, kInt64Max, kInt64Max},
                              {kInt64Max, 0},    {0, kInt64Max},    {0, 0, kInt64Max, 2}, {two32, 0, 0, two32}};
  for (const Dims& dims : beside_zero) {
    Bad(cases, "zero beside an overflow," + Text(dims), Input(Tensor(1, dims, 0)), "input.shape: the product");
  }
  const Dims empty[] = {{0}, {0, 5}, {5, 0}, {0, 0}, {1, 0, 1000, 2}, {0, 1 << 30}, {1 << 30, 0}};
  for (const Dims& dims : empty) {
    for (std::int64_t dtype = 1; dtype <= 4; ++dtype) {
      const std::string name = "empty, dtype " + std::to_string(dtype) + "," + Text(dims);
      Good(cases, name, Input(Tensor(dtype, dims, 0)));
      Good(cases, name + ", no data field", Input(Dtype(dtype) + Shape(dims)));
      Bad(cases, name + ", with data", Input(Tensor(dtype, dims, kSizes[dtype])), "input.data: has");
    }
  }
  Bad(cases, "too many rows", Input(Tensor(1, {two32, 1}, 4)), "(max_rows)");
  Bad(cases, "too many columns", Input(Tensor(1, {1, two32}, 4)), "(max_columns)");
  Bad(cases, "too many rows without columns", Input(Tensor(1, {two32, 0}, 0)), "(max_rows)");
  Bad(cases, "too many columns without rows", Input(Tensor(1, {0, two32}, 0)), "(max_columns)");
}

void AppendByteCounts(Cases* cases) {
  const Dims shapes[] = {{1}, {7}, {2, 3}, {3, 1, 5}, {1, 1, 1, 1, 1, 1, 1, 2}};
  for (const Dims& dims : shapes) {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims) product *= dim;
    for (std::int64_t dtype = 1; dtype <= 4; ++dtype) {
      const std::int64_t right = product * kSizes[dtype];
      Good(cases, "right size," + Text(dims), Input(Tensor(dtype, dims, right)));
      for (const std::int64_t wrong :
           {std::int64_t{0}, right - 1, right + 1, right + kSizes[dtype], right * 2, 4096 + right}) {
        Bad(cases, std::to_string(wrong) + " bytes for" + Text(dims), Input(Tensor(dtype, dims, wrong)),
            "input.data: has " + std::to_string(wrong) + " bytes; must be " + std::to_string(right));
      }
    }
  }
}

void AppendEnumsAndAxes(Cases* cases) {
  const std::string tensor = Tensor(1, {2, 3}, 24);
  for (const std::int32_t value : {5, 6, 127, 128, 1000, kInt32Max, -1, -128, kInt32Min}) {
    const std::string text = std::to_string(value);
    Bad(cases, "dtype " + text, Input(Tensor(value, {2, 3}, 24)), "input.dtype: is " + text);
    Bad(cases, "operation " + text, Scalar(2, value) + Input(tensor), "operation: is " + text);
    Bad(cases, "output_dtype " + text, Scalar(5, value) + Input(tensor), "output_dtype: is " + text);
  }
  Bad(cases, "dtype 0", Input(Tensor(0, {2, 3}, 24)), "input.dtype: is 0; must be 1 to 4");
  const auto last = static_cast<std::int64_t>(kernels::kOperations.size());
  Bad(cases, "operation after the last", Scalar(2, last + 1) + Input(tensor),
      "operation: is " + std::to_string(last + 1) + "; must be 0 to " + std::to_string(last));
  Bad(cases, "dtype as bytes", Input(Block(1, "\x01") + Shape({2, 3}) + Data(24)), "input.dtype: is 0");
  Bad(cases, "input as a varint", Scalar(1, 4) + Scalar(15, 4), "input: is absent");
  Bad(cases, "empty input", Input(""), "input.dtype: is 0");
  Bad(cases, "empty message", "", "input: is absent");
  // An enum keeps its lower 32 bits, as in the generated parser.
  Good(cases, "dtype 2^32 + 1", Input(Tensor((std::int64_t{1} << 32) + 1, {2, 3}, 24)));

  for (std::int64_t rank = 1; rank <= 8; ++rank) {
    const std::string ones = Input(Tensor(1, Dims(rank, 1), 4));
    for (std::int64_t axis = -rank; axis < rank; ++axis) {
      Good(cases, "axis " + std::to_string(axis) + " of " + std::to_string(rank), Scalar(3, axis) + ones);
    }
    for (const std::int64_t axis :
         {-rank - 1, rank, std::int64_t{100}, std::int64_t{kInt32Max}, std::int64_t{kInt32Min}}) {
      Bad(cases, "axis " + std::to_string(axis) + " of " + std::to_string(rank), Scalar(3, axis) + ones,
          "axis: is " + std::to_string(axis) + "; must be -");
    }
  }
}

void AppendScales(Cases* cases) {
  using Limits = std::numeric_limits<double>;
  for (std::int64_t dtype = 1; dtype <= 4; ++dtype) {
    const std::string input = Input(Tensor(dtype, {3}, 3 * kSizes[dtype]));
    for (const double scale : {0.0, -0.0, -1.0, -1e-300, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                               -Limits::quiet_NaN(), -Limits::denorm_min(), Limits::lowest()}) {
      Bad(cases, "scale " + std::to_string(scale), Double(4, scale) + input, "scale: is ");
    }
    for (const double scale : {1e-300, 0.125, 1.0, 1e300, Limits::max(), Limits::min()}) {
      Good(cases, "scale " + std::to_string(scale), Double(4, scale) + input);
    }
  }
}

void AppendLengths(Cases* cases) {
  for (std::int64_t rows = 0; rows <= 5; ++rows) {
    const std::string input = Input(Tensor(1, {rows, 3}, rows * 12));
    for (std::size_t count = 0; count <= 8; ++count) {
      const std::string name = std::to_string(count) + " lengths for " + std::to_string(rows);
      const std::string bytes = Lengths(Dims(count, 3)) + input;
      if (count == 0 || count == static_cast<std::size_t>(rows)) {
        Good(cases, name, bytes);
      } else {
        Bad(cases, name, bytes, "lengths: has " + std::to_string(count) + " values; must be 0 or ");
      }
    }
    for (std::int64_t at = 0; at < rows; ++at) {
      for (const std::int64_t value : {std::int64_t{4}, std::int64_t{1} << 31, 0xffffffffL}) {
        Dims lengths(rows, 3);
        lengths[at] = value;
        Bad(cases, "length above the axis," + Text(lengths), input + Lengths(lengths),
            "lengths: value " + std::to_string(at) + " is " + std::to_string(value));
      }
    }
  }
  Good(cases, "lengths in pieces",
       Scalar(6, 1) + Lengths({2, 3}) + Input(Tensor(1, {4, 3}, 48)) + Scalar(6, 0) + Lengths({}));
  Good(cases, "lengths over axis 0", Scalar(3, 0) + Lengths({2, 1, 0}) + Input(Tensor(1, {2, 3}, 24)));
  Good(cases, "lengths without columns", Lengths({0, 0}) + Input(Tensor(1, {2, 0}, 0)));
  Bad(cases, "length without columns", Lengths({0, 1}) + Input(Tensor(1, {2, 0}, 0)),
      "lengths: value 1 is 1; must be at most 0");
  const std::size_t ten_million = 10'000'000;
  const std::string says = "lengths: has 10000000 values; must be 0 or 2";
  const std::string input = Input(Tensor(1, {2, 3}, 24));
  Bad(cases, "ten million lengths", Block(6, std::string(ten_million, '\1')) + input, says);
  Bad(cases, "ten million lengths behind", input + Block(6, std::string(ten_million, '\1')), says);
  std::string unpacked = input;
  for (std::size_t i = 0; i < ten_million; ++i) unpacked += "\x30\x02";
  Bad(cases, "ten million unpacked lengths", std::move(unpacked), says);
}

std::string Int32s(const std::vector<std::int32_t>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int32_t));
}
std::string Summary(std::string_view fields) { return Block(8, fields); }

void AppendSummaries(Cases* cases) {
  const std::string input = Input(Tensor(1, {2, 3}, 24));
  for (const std::int64_t k : {1, 3, 4, 1024}) Good(cases, "top " + std::to_string(k), Summary(Scalar(1, k)) + input);
  for (const std::int64_t k : {std::int64_t{1025}, std::int64_t{100000}, std::int64_t{kInt32Max}, std::int64_t{-1}}) {
    Bad(cases, "top " + std::to_string(k), Summary(Scalar(1, k)) + input,
        "summary.top_k: is " + std::to_string(static_cast<std::uint32_t>(k)) + "; must be at most 1024 (max_top_k)");
  }
  for (const char* name : {"no fields", "top 0"}) {
    const std::string fields = name[0] == 'n' ? "" : Scalar(1, 0);
    Bad(cases, std::string("summary of ") + name, Summary(fields) + input, "summary: asks for nothing; must have");
  }
  Bad(cases, "summary as a varint", Scalar(8, 1) + Input(Dtype(0)), "input.dtype: is 0");
  Good(cases, "the tensor alone", Summary(Scalar(5, 1)) + input);
  Good(cases, "everything",
       Summary(Scalar(1, 2) + Block(2, Int32s({0, 2})) + Scalar(3, 1) + Scalar(4, 1) + Scalar(5, 1)) + input);
  Good(cases, "summaries merge", Summary(Scalar(1, 2000)) + input + Summary(Scalar(1, 2)));
  Good(cases, "indices", Summary(Block(2, Int32s({-1, 0, 1, 2}))) + input);
  for (const std::int32_t index : {-2, 3, kInt32Max, kInt32Min}) {
    Bad(cases, "index " + std::to_string(index), Summary(Block(2, Int32s({0, 1, 2, index}))) + input,
        "summary.indices: value 3, of row 1, is " + std::to_string(index) + "; must be -1 (none) or from 0 to 2");
  }
  for (const std::size_t size : {1, 4, 7, 12, 20}) {
    Bad(cases, "indices of " + std::to_string(size) + " bytes", Summary(Block(2, std::string(size, '\0'))) + input,
        "summary.indices: has " + std::to_string(size) + " bytes; must be a multiple of 8");
  }
  Bad(cases, "indices without rows", Summary(Block(2, Int32s({0}))) + Input(Tensor(1, {0, 3}, 0)),
      "summary.indices: has 4 bytes");
  Good(cases, "a summary without rows", Summary(Scalar(1, 5)) + Input(Tensor(1, {0, 3}, 0)));
  Good(cases, "a summary without columns", Summary(Scalar(1, 5)) + Input(Tensor(1, {3, 0}, 0)));
  Bad(cases, "an index without columns", Summary(Block(2, Int32s({0}))) + Input(Tensor(1, {1, 0}, 0)),
      "summary.indices: value 0, of row 0, is 0; must be -1 (none)");
  std::vector<std::int32_t> many(10'000'000, 2);
  many.back() = 3;
  Bad(cases, "ten million indices, the last out of range", Summary(Block(2, Int32s(many))) + input,
      "summary.indices: value 9999999, of row 1, is 3");
  Bad(cases, "twenty million indices", Summary(Block(2, std::string(80'000'000, '\0'))) + input,
      "input.data: the data, lengths and indices have 80000024 bytes; must be at most 67108864");
}

void AppendRepeats(Cases* cases) {
  const std::string tensor = Tensor(1, {2, 3}, 24);
  const std::string input = Input(tensor);
  Good(cases, "two ids", Scalar(1, 1) + input + Scalar(1, 2));
  Good(cases, "operation mended", Scalar(2, 9) + input + Scalar(2, 1));
  Bad(cases, "operation spoilt", Scalar(2, 1) + input + Scalar(2, 9), "operation: is 9");
  Good(cases, "axis mended", Scalar(3, 9) + input + Scalar(3, 1));
  Bad(cases, "axis spoilt", Scalar(3, 1) + input + Scalar(3, 9), "axis: is 9");
  Good(cases, "scale mended", Double(4, -1) + input + Double(4, 1));
  Bad(cases, "scale spoilt", Double(4, 1) + input + Double(4, -1), "scale: is -1");
  Good(cases, "output_dtype mended", Scalar(5, 9) + input + Scalar(5, 2));
  Bad(cases, "output_dtype spoilt", Scalar(5, 2) + input + Scalar(5, 9), "output_dtype: is 9");
  Good(cases, "dtype mended", Input(Dtype(9) + tensor));
  Bad(cases, "dtype spoilt", input + Input(Dtype(9)), "input.dtype: is 9");
  Good(cases, "data before the rest", Input(Data(24) + Shape({2, 3}) + Dtype(1)) + Scalar(1, 5));
  Good(cases, "two data fields", Input(Data(7) + tensor));
  Good(cases, "data in an input of its own", Input(Data(24)) + Input(Dtype(1) + Shape({2, 3})));
  Bad(cases, "two data fields, the last short", Input(tensor + Data(23)), "input.data: has 23");
  Bad(cases, "two data fields, the last empty", Input(tensor + Data(0)), "input.data: has 0");
  Good(cases, "shape from two inputs", Input(Dtype(1) + Shape({2})) + Input(Shape({3}) + Data(24)));
  Good(cases, "shape in pieces", Input(Dtype(1) + Scalar(2, 2) + Shape({}) + Shape({3}) + Data(24)));
  Bad(cases, "the same input twice", input + input, "input.data: has 24 bytes; must be 144");
  Bad(cases, "five inputs make rank 10", input + input + input + input + input, "input.shape: has rank 10");
}

// fp16 and bf16 become four times as large in fp64, fp32 twice: the answer passes 64 MiB although
// the request does not.
void AppendLargeAnswers(Cases* cases) {
  const std::int64_t just_too_many = (64 << 20) / 8 + 1;
  for (const std::int64_t dtype : {2, 3}) {
    Bad(cases, "answer too large, dtype " + std::to_string(dtype) + " to fp64",
        Scalar(5, 4) + Input(Tensor(dtype, {just_too_many}, just_too_many * 2)),
        "output_dtype: 4 makes an answer of 67108872 bytes; must be at most 67108864");
  }
  Bad(cases, "answer too large, fp32 to fp64", Scalar(5, 4) + Input(Tensor(1, {just_too_many, 1}, just_too_many * 4)),
      "output_dtype: 4 makes an answer of 67108872 bytes; must be at most 67108864");
}

// The cases' server has no regions.
void AppendPlaces(Cases* cases) {
  const std::string place = Block(1, std::string(16, 't')) + Scalar(2, 64);
  const std::string tensor = Dtype(1) + Shape({2, 2});
  const std::string says = "is set; must be absent, for this server has no regions (--regions-socket)";
  Bad(cases, "input in a region", Input(tensor + Block(3, place)), "input.place: " + says);
  Bad(cases, "input in a region and here", Input(tensor + Block(3, place) + Data(16)), "input.place: " + says);
  Bad(cases, "an empty place", Input(tensor + Block(3, "") + Data(16)), "input.place: " + says);
  Bad(cases, "output in a region", Block(9, place) + Input(tensor + Data(16)), "output_place: " + says);
  Bad(cases, "summary in a region", Block(8, Scalar(1, 1)) + Block(10, place) + Input(tensor + Data(16)),
      "summary_place: " + says);
  Bad(cases, "a place cut short", Input(tensor + Block(3, place.substr(0, 9)) + Data(16)),
      "input.place: malformed near byte");
  Bad(cases, "an output place cut short", Block(9, place.substr(0, 9)) + Input(tensor + Data(16)),
      "output_place: malformed near byte");
  Bad(cases, "a summary place cut short", Block(10, place.substr(0, 9)) + Input(tensor + Data(16)),
      "summary_place: malformed near byte");
}

}  // namespace

void AppendBrokenContracts(Cases* cases) {
  AppendShapes(cases);
  AppendOverflows(cases);
  AppendByteCounts(cases);
  AppendEnumsAndAxes(cases);
  AppendScales(cases);
  AppendLengths(cases);
  AppendSummaries(cases);
  AppendRepeats(cases);
  AppendLargeAnswers(cases);
  AppendPlaces(cases);
}

}  // namespace softmax::testing
