#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/reference.h"
#include "kernels/types.h"
#include "tests/support/all_operations.h"

// Inputs on which a softmax kernel can go wrong, and what surrounds them in memory. The CPU and the
// CUDA tests run the same cases: Prepare() a case, run the kernel on the segment (or on a copy of
// the two buffers on a device, at the same offsets, copied back), then Verify().
namespace softmax::testing {

using kernels::DataType;
using kernels::Operation;
using kernels::Segment;

enum class Values {
  kNormal,
  kNormal50,         // standard deviation 50
  kConstant,         // all elements of a row equal
  kSpike,            // one element of each row is 80 above the others
  kPartialInfinity,  // three in ten elements are -inf
  kFullInfinity,     // every other row is all -inf
  kNan,              // every other row has one NaN
  kLargest,          // plus and minus the type's largest number
  kSubnormal,
  kPositiveInfinity,  // every other row has one +inf
};

enum class Lengths {
  kNone,   // no array
  kWhole,  // an array, every length equal to the number of columns
  kMixed,  // 0, 1, all, and anything between; what lies beyond is NaN or +inf
};

struct KernelCase {
  DataType input_type = DataType::kFloat32;
  DataType output_type = DataType::kFloat32;
  Operation operation = Operation::kSoftmax;
  Values values = Values::kNormal;
  Lengths lengths = Lengths::kNone;
  std::int64_t outer = 1;
  std::int64_t cols = 1;
  std::int64_t inner = 1;
  double scale = 1;
  std::int64_t stride_gap = 0;  // elements between one outer block and the next
  std::size_t offset = 0;       // elements by which the tensors miss a 64-byte boundary
  bool in_place = false;
  std::uint64_t seed = 0;

  std::int64_t rows() const { return outer * inner; }
};

// splitmix64: the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::int64_t Below(std::int64_t limit) {
    return static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(limit));
  }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(6.283185307179586 * Uniform());
  }

 private:
  std::uint64_t state_;
};

inline const std::vector<DataType>& AllTypes() {
  static const std::vector<DataType> types = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16,
                                              DataType::kFloat64};
  return types;
}

inline const char* NameOf(DataType type) {
  return type == DataType::kFloat32    ? "fp32"
         : type == DataType::kFloat16  ? "fp16"
         : type == DataType::kBFloat16 ? "bf16"
                                       : "fp64";
}

inline std::string NameOf(const KernelCase& test) {
  return std::string(NameOf(test.input_type)) + "_" + NameOf(test.output_type) + "_" + TraitsOf(test.operation).name +
         "_" + std::to_string(test.outer) + "x" + std::to_string(test.cols) + "x" + std::to_string(test.inner) +
         "_values" + std::to_string(static_cast<int>(test.values)) + "_lengths" +
         std::to_string(static_cast<int>(test.lengths)) + "_scale" + std::to_string(test.scale) + "_gap" +
         std::to_string(test.stride_gap) + "_offset" + std::to_string(test.offset) +
         (test.in_place ? "_in_place" : "") + "_seed" + std::to_string(test.seed);
}

// A case's memory. Both buffers begin 64-byte aligned once their first byte is (see Base()).
struct PreparedCase {
  KernelCase test;
  std::vector<std::byte> input;     // what the kernel reads; in place: also what it writes
  std::vector<std::byte> output;    // empty when in place
  std::vector<std::byte> pristine;  // a copy of `input` that no kernel sees
  std::vector<std::byte> blank;     // a copy of what the kernel writes to, as it was before
  std::vector<std::uint32_t> lengths;
  std::size_t input_offset = 0;   // bytes from Base(input) to the first element
  std::size_t output_offset = 0;  // the same for Base(output)

  std::vector<std::byte>& Written() { return test.in_place ? input : output; }
};

// The first 64-byte boundary in a buffer, which has 64 bytes to spare.
inline std::byte* Base(std::vector<std::byte>& buffer) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return buffer.data() + (64 - address % 64) % 64;
}

// Bytes of a buffer from Base() on, guard bytes at both ends included.
inline std::size_t UsableBytes(const std::vector<std::byte>& buffer) { return buffer.size() - 64; }

// The segment in host memory. Call it again after moving a PreparedCase.
inline Segment SegmentOf(PreparedCase& prepared) {
  const KernelCase& test = prepared.test;
  Segment segment;
  segment.input = Base(prepared.input) + prepared.input_offset;
  segment.output = Base(prepared.Written()) + prepared.output_offset;
  segment.lengths = test.lengths == Lengths::kNone ? nullptr : prepared.lengths.data();
  segment.outer = test.outer;
  segment.cols = test.cols;
  segment.inner = test.inner;
  segment.input_stride = test.cols * test.inner + test.stride_gap;
  segment.output_stride = segment.input_stride;
  segment.scale = test.scale;
  segment.operation = test.operation;
  return segment;
}

constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

inline double Largest(DataType type) {
  return type == DataType::kFloat16    ? 65504.0
         : type == DataType::kBFloat16 ? 0x1.fep127
         : type == DataType::kFloat32  ? static_cast<double>(std::numeric_limits<float>::max())
                                       : std::numeric_limits<double>::max();
}

inline double SmallestSubnormal(DataType type) {
  return type == DataType::kFloat16    ? 0x1p-24
         : type == DataType::kBFloat16 ? 0x1p-133
         : type == DataType::kFloat32  ? 0x1p-149
                                       : std::numeric_limits<double>::denorm_min();
}

// The values of one row.
inline void FillRow(const KernelCase& test, std::int64_t row, Random& random, std::vector<double>& values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::int64_t any = random.Below(test.cols);
  const double constant = random.Normal();
  const bool is_odd = row % 2 == 1 || test.rows() == 1;
  for (double& x : values) {
    switch (test.values) {
      case Values::kConstant:
        x = constant;
        break;
      case Values::kNormal50:
        x = 50 * random.Normal();
        break;
      case Values::kPartialInfinity:
        x = random.Below(10) < 3 ? -kInfinity : random.Normal();
        break;
      case Values::kFullInfinity:
        x = is_odd ? -kInfinity : random.Normal();
        break;
      case Values::kLargest:
        x = random.Below(3) == 0 ? random.Normal() : (random.Below(2) == 0 ? 1 : -1) * Largest(test.input_type);
        break;
      case Values::kSubnormal:
        x = static_cast<double>(random.Below(2000) - 1000) * SmallestSubnormal(test.input_type);
        break;
      default:
        x = random.Normal();
    }
  }
  double& one = values[static_cast<std::size_t>(any)];
  if (test.values == Values::kSpike) {
    one += 80;
  } else if (test.values == Values::kNan && is_odd) {
    one = std::numeric_limits<double>::quiet_NaN();
  } else if (test.values == Values::kPositiveInfinity && is_odd) {
    one = kInfinity;
  }
}

inline std::uint32_t LengthOf(const KernelCase& test, std::int64_t row, Random& random) {
  if (test.lengths != Lengths::kMixed || row % 5 == 3) {
    return static_cast<std::uint32_t>(test.cols);
  }
  if (row % 5 < 2) {
    return static_cast<std::uint32_t>((row + static_cast<std::int64_t>(test.seed)) % 2);
  }
  return static_cast<std::uint32_t>(random.Below(test.cols + 1));
}

inline PreparedCase Prepare(const KernelCase& test) {
  PreparedCase prepared;
  prepared.test = test;
  const auto stride = static_cast<std::size_t>(test.cols * test.inner + test.stride_gap);
  const std::size_t elements = stride * static_cast<std::size_t>(test.outer);
  const auto bytes = [&](DataType type) { return 64 + 2 * kGuardBytes + (elements + test.offset) * SizeOf(type); };
  prepared.input_offset = kGuardBytes + test.offset * SizeOf(test.input_type);
  prepared.output_offset = kGuardBytes + test.offset * SizeOf(test.output_type);
  prepared.input.assign(bytes(test.input_type), kGuard);
  if (!test.in_place) {
    prepared.output.assign(bytes(test.output_type), kGuard);
  }

  Random random(test.seed);
  std::byte* first = Base(prepared.input) + prepared.input_offset;
  std::vector<double> values(static_cast<std::size_t>(test.cols));
  for (std::int64_t row = 0; row < test.rows(); ++row) {
    FillRow(test, row, random, values);
    const std::uint32_t length = LengthOf(test, row, random);
    prepared.lengths.push_back(length);
    for (std::int64_t c = 0; c < test.cols; ++c) {
      const double poison =
          c % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
      StoreElement(test.input_type, first,
                   row / test.inner * static_cast<std::int64_t>(stride) + c * test.inner + row % test.inner,
                   c < length ? values[static_cast<std::size_t>(c)] : poison);
    }
  }
  prepared.pristine.assign(Base(prepared.input), Base(prepared.input) + UsableBytes(prepared.input));
  std::vector<std::byte>& written = prepared.Written();
  prepared.blank.assign(Base(written), Base(written) + UsableBytes(written));
  return prepared;
}

// Judges what stands in the written buffer: the values, and every byte that is no element of the
// output. `result.message` is empty when all is well.
inline kernels::Judgement Verify(PreparedCase& prepared) {
  const KernelCase& test = prepared.test;
  Segment segment = SegmentOf(prepared);
  segment.input = prepared.pristine.data() + prepared.input_offset;
  kernels::Judgement result = kernels::Judge(test.input_type, test.output_type, segment, kernels::Bounds::kUsual);

  const std::size_t size = SizeOf(test.output_type);
  const auto block = static_cast<std::size_t>(test.cols * test.inner) * size;
  const auto stride = static_cast<std::size_t>(segment.output_stride) * size;
  const std::byte* now = Base(prepared.Written());
  const auto expect_untouched = [&](std::size_t begin, std::size_t end) {
    if (std::memcmp(now + begin, prepared.blank.data() + begin, end - begin) != 0) {
      result.ok = false;
      ++result.failures;
      result.message += " [bytes outside the output changed between offsets " + std::to_string(begin) + " and " +
                        std::to_string(end) + "]";
    }
  };
  std::size_t at = 0;
  for (std::int64_t o = 0; o < test.outer; ++o) {
    const std::size_t begin = prepared.output_offset + static_cast<std::size_t>(o) * stride;
    expect_untouched(at, begin);
    at = begin + block;
  }
  expect_untouched(at, prepared.blank.size());
  if (!test.in_place && std::memcmp(Base(prepared.input), prepared.pristine.data(), prepared.pristine.size()) != 0) {
    result.ok = false;
    ++result.failures;
    result.message += " [the input changed]";
  }
  if (!result.ok) {
    result.message = NameOf(test) + ": " + result.message;
  }
  return result;
}

// Sets what the width does not: every pair of one of these with another comes up within a few
// hundred cases, as their periods are coprime.
inline void Vary(KernelCase& test, std::uint64_t n) {
  constexpr double kScales[] = {1, 1, 0.1, 7, 1, 0.08838834764831845, 1};
  constexpr std::int64_t kInner[] = {1, 1, 1, 16, 1, 3, 1, 37, 1, 2, 1};
  test.seed = n;
  test.scale = kScales[n % 7];
  test.inner = kInner[n % 11];
  test.lengths = n % 5 == 1 ? Lengths::kWhole : n % 5 > 2 ? Lengths::kMixed : Lengths::kNone;
  test.offset = n % 13 < 9 ? n % 13 : 0;
  test.stride_gap = n % 3 == 2 ? static_cast<std::int64_t>(n % 17) : 0;
  test.in_place = SizeOf(test.input_type) == SizeOf(test.output_type) && n % 2 == 1;
}

// About 5,500 cases: every width with every class of values, every pair of types and both
// operations; the widest ones with fewer classes.
inline std::vector<KernelCase> AllCases() {
  constexpr std::int64_t kWidths[] = {1,   2,   3,   8,   15,   31,   32,   33,   64,    127,   128,
                                      129, 255, 257, 513, 1023, 1024, 1025, 4099, 50257, 131073};
  std::vector<KernelCase> cases;
  std::uint64_t n = 0;
  const auto add = [&](KernelCase test, std::int64_t elements) {
    Vary(test, n++);
    if (test.cols > 10000) {
      test.inner = test.inner == 1 ? 1 : 2;
    }
    const std::int64_t rows = std::max<std::int64_t>(1, elements / test.cols);
    test.outer = std::clamp<std::int64_t>((rows + test.inner - 1) / test.inner, 1, 12);
    cases.push_back(test);
  };
  KernelCase test;
  for (const DataType input : AllTypes()) {
    for (const DataType output : AllTypes()) {
      for (const Operation operation : AllOperations()) {
        test.input_type = input;
        test.output_type = output;
        test.operation = operation;
        for (const std::int64_t width : kWidths) {
          test.cols = width;
          for (int values = 0; values <= static_cast<int>(Values::kPositiveInfinity); ++values) {
            test.values = static_cast<Values>(values);
            const bool is_wide = width > 10000;
            const bool is_kept = test.values <= Values::kSpike;
            if (!is_wide || is_kept) {
              add(test, is_wide ? 1 : 3000);
            }
          }
        }
        if (input == output) {
          KernelCase demo = test;  // the shape that published softmax kernels are compared on
          demo.values = Values::kNormal;
          demo.cols = 781;
          demo.outer = 1823;
          demo.seed = 781;
          cases.push_back(demo);
        }
      }
    }
  }
  return cases;
}

}  // namespace softmax::testing
