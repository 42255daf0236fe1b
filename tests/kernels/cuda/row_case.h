#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/reference.h"
#include "tests/kernels/combinations.h"
#include "tests/kernels/cuda/gpu_memory.h"
#include "tests/support/kernel_cases.h"

// One tensor, run through LaunchSoftmax between guard bytes and judged against the reference.
namespace softmax::kernels::testing {

using softmax::testing::Values;
constexpr Values kAllValues[] = {
    Values::kNormal,       Values::kNormal50, Values::kConstant, Values::kSpike,     Values::kPartialInfinity,
    Values::kFullInfinity, Values::kNan,      Values::kLargest,  Values::kSubnormal, Values::kPositiveInfinity};
constexpr DataType kAllTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64};
constexpr DataType kTypesUpTo32Bits[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

inline std::string NameOfType(const ::testing::TestParamInfo<DataType>& info) {
  return softmax::testing::NameOf(info.param);
}

struct RowCase {
  DataType input_type = DataType::kFloat32;
  DataType output_type = DataType::kFloat32;
  std::int64_t outer = 1;
  std::int64_t cols = 1;
  std::int64_t inner = 1;
  Operation operation = Operation::kSoftmax;
  double scale = 1.0;
  std::vector<std::uint32_t> lengths;
  std::int64_t input_offset = 0;  // elements past a 256-byte boundary
  std::int64_t output_offset = 0;
  std::int64_t padding = 0;  // elements between outer blocks
  bool in_place = false;
  Place place = Place::kDevice;

  std::string Name() const;
  std::int64_t Elements() const { return outer * (cols * inner + padding); }
};

// A dense case, input type = output type.
RowCase CaseOf(DataType type, Operation operation, std::int64_t cols, std::int64_t outer = 1, std::int64_t inner = 1);

// `count` elements of a type, repeatable, made in rows of `cols` (what the rows hold: tests/support/kernel_cases.h).
std::vector<std::byte> MakeValues(Values values, DataType type, std::int64_t count, std::uint64_t seed,
                                  std::int64_t cols = 1000);

// Runs the case on `input` (Elements() elements) and returns the output's bytes (as many elements, padding included).
// Fails the test if a guard byte or the padding changed.
std::vector<std::byte> RunCase(const RowCase& c, const std::vector<std::byte>& input);

// Runs and judges.
void ExpectGood(const RowCase& c, Values values, std::uint64_t seed = 1);

// The segment of a case over host copies, as the judge wants it.
Segment HostSegment(const RowCase& c, const std::byte* input, std::byte* output);

}  // namespace softmax::kernels::testing
