#include "server/rpc/oip/class_texts.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/wire/oip_decode.h"
#include "kernels/reference.h"

namespace softmax::server {
namespace {

using kernels::DataType;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A summary of `rows` rows with these values, row by row, and indices that count down from `last`.
struct Summary {
  TensorSpec spec;
  std::vector<std::byte> bytes;

  Summary(DataType type, const std::vector<double>& values, std::int64_t rows, std::int32_t last) {
    spec.input_type = spec.output_type = type;
    spec.operation = kernels::Operation::kLogSoftmax;
    spec.outer = rows;
    spec.cols = std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
    spec.summary.top_k = static_cast<std::uint32_t>(values.size()) / static_cast<std::uint32_t>(rows);
    spec.summary.partial = true;
    const SummaryLayout layout = spec.summary_layout();
    bytes.resize(layout.total);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      kernels::StoreElement(type, bytes.data() + layout.offset[SummaryLayout::kTopValues], at, values[i]);
      const std::int32_t index = std::isnan(values[i]) ? -1 : last - static_cast<std::int32_t>(i);
      std::memcpy(bytes.data() + layout.offset[SummaryLayout::kTopIndices] + i * sizeof(index), &index, sizeof(index));
    }
  }

  double value(std::int64_t i) const { return kernels::LoadElement(spec.output_type, bytes.data(), i); }
};

// In pieces of `piece` classes.
std::vector<std::string> TextsOf(const Summary& summary, std::int64_t piece) {
  std::string bytes;
  const std::int64_t count = ClassCount(summary.spec);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    AppendClassTexts(summary.spec, summary.bytes.data(), begin, std::min(begin + piece, count), &bytes);
  }
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint32_t size;
    std::memcpy(&size, bytes.data() + at, sizeof(size));
    texts.push_back(bytes.substr(at + sizeof(size), size));
    EXPECT_LE(sizeof(size) + size, MostClassBytes(summary.spec)) << texts.back();
    at += sizeof(size) + size;
  }
  return texts;
}

std::vector<double> AnyValues(std::size_t count, std::mt19937_64& random) {
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                0.5,
                                -0.0000005,
                                0.0000005,
                                2.5e-7,
                                -kInf,
                                999999999999999.875,
                                -1e15,
                                1e15,
                                5e-324,
                                -1e-300,
                                1e22,
                                1e23,
                                -1.7976931348623157e308,
                                -3.4e38,
                                -65504.,
                                123456789012345.0};
  while (values.size() < count) {
    switch (random() % 4) {
      case 0:
        values.push_back(std::bit_cast<double>(random()));
        break;
      case 1:
        values.push_back(std::ldexp(static_cast<double>(random()), -64));  // a probability
        break;
      case 2:
        values.push_back(-std::ldexp(static_cast<double>(random()), -54));  // a logarithm of one
        break;
      default:
        values.push_back(static_cast<double>(random() % 20000000) / 2e7);  // decimals that lie on a tie, or near it
    }
    if (std::isnan(values.back())) values.back() = 0.25;
  }
  return values;
}

// printf's "%f" is what Triton writes; what is larger reads back as the same number.
TEST(ClassTexts, ValuesReadAsTritonWritesThemAndLargeOnesAreShort) {
  std::mt19937_64 random(5);
  for (const DataType type : {DataType::kFloat64, DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const Summary summary(type, AnyValues(1'000'000, random), 1, std::numeric_limits<std::int32_t>::max());
    const std::vector<std::string> texts = TextsOf(summary, 1'000'000);
    ASSERT_EQ(texts.size(), 1'000'000u);
    std::size_t large = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const double value = summary.value(static_cast<std::int64_t>(i));
      const std::size_t colon = texts[i].find(':');
      ASSERT_EQ(texts[i].substr(colon), ":" + std::to_string(std::numeric_limits<std::int32_t>::max() - i));
      if (std::isfinite(value) && std::fabs(value) >= 1e15) {
        double again = 0;
        ASSERT_EQ(std::from_chars(texts[i].data(), texts[i].data() + colon, again).ptr, texts[i].data() + colon);
        ASSERT_EQ(again, value);
        ++large;
        continue;
      }
      char text[64];
      std::snprintf(text, sizeof(text), "%f", value);
      ASSERT_EQ(texts[i].substr(0, colon), text) << i;
    }
    EXPECT_EQ(large > 5'000, type != DataType::kFloat16);  // halves have none
  }
}

TEST(ClassTexts, NoTextIsLongerThanItsLimitAndTheLongestAreAsLong) {
  const auto longest = [](DataType type, double value) {
    const Summary summary(type, {value}, 1, std::numeric_limits<std::int32_t>::max());
    return sizeof(std::uint32_t) + TextsOf(summary, 1)[0].size() == MostClassBytes(summary.spec);
  };
  EXPECT_TRUE(longest(DataType::kFloat64, -1.7976931348623157e308));
  EXPECT_TRUE(longest(DataType::kFloat32, -3.4028234663852886e38));
  EXPECT_TRUE(longest(DataType::kFloat32, -999999986991104.0));
  EXPECT_TRUE(longest(DataType::kFloat16, -65504));
}

TEST(ClassTexts, APieceAtATimeMakesTheSame) {
  std::mt19937_64 random(7);
  const Summary summary(DataType::kFloat32, AnyValues(3000, random), 3, 5000);
  const std::vector<std::string> whole = TextsOf(summary, 3000);
  for (const std::int64_t piece : {1, 7, 1000, 2999}) EXPECT_EQ(TextsOf(summary, piece), whole);
}

// Every index is one of the row's: -1 would look up the last of a list of names.
TEST(ClassTexts, ARowOfNanHasItsClassesInOrder) {
  const Summary summary(DataType::kFloat32, {-1, -2, kNan, kNan}, 2, 9);
  EXPECT_EQ(TextsOf(summary, 4), (std::vector<std::string>{"-1.000000:9", "-2.000000:8", "nan:0", "nan:1"}));
}

TEST(ClassTexts, AnEmptyTensorHasNone) {
  TensorSpec spec;
  spec.summary.top_k = 5;
  EXPECT_EQ(ClassCount(spec), 0);
}

}  // namespace
}  // namespace softmax::server
