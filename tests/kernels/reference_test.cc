#include "kernels/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/all_operations.h"
#include "tests/support/kernel_cases.h"

namespace softmax::kernels {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows of normal numbers and the right answer to them, for tests that then spoil the answer.
class JudgeTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 7;
  static constexpr std::int64_t kCols = 100;

  JudgeTest() : input_(kRows * kCols), output_(kRows * kCols) {
    testing::Random random(1);
    for (float& x : input_) {
      x = static_cast<float>(random.Normal());
    }
    segment_.input = input_.data();
    segment_.output = output_.data();
    segment_.outer = kRows;
    segment_.cols = kCols;
    segment_.input_stride = segment_.output_stride = kCols;
    Answer();
  }

  // An implementation of its own, in double and by the textbook.
  void Answer() {
    const bool is_log = TraitsOf(segment_.operation).is_log;
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::int64_t count = segment_.lengths == nullptr ? kCols : segment_.lengths[r];
      double sum = 0;
      for (std::int64_t c = 0; c < count; ++c) {
        sum += std::exp(segment_.scale * static_cast<double>(At(r, c)));
      }
      for (std::int64_t c = 0; c < kCols; ++c) {
        const double x = segment_.scale * static_cast<double>(At(r, c));
        const double y = is_log ? x - std::log(sum) : std::exp(x) / sum;
        const double masked = is_log ? -std::numeric_limits<double>::infinity() : 0;
        Out(r, c) = count == 0 ? NAN : static_cast<float>(c < count ? y : masked);
      }
    }
  }

  float& At(std::int64_t r, std::int64_t c) { return input_[static_cast<std::size_t>(r * kCols + c)]; }
  float& Out(std::int64_t r, std::int64_t c) { return output_[static_cast<std::size_t>(r * kCols + c)]; }
  Judgement Result(Bounds bounds = Bounds::kUsual) {
    return Judge(DataType::kFloat32, DataType::kFloat32, segment_, bounds);
  }

  std::vector<float> input_;
  std::vector<float> output_;
  Segment segment_;
};

TEST_F(JudgeTest, TakesTheRightAnswer) {
  for (const double scale : {1.0, 0.1, 7.0}) {
    for (const Operation operation : testing::AllOperations()) {
      segment_.scale = scale;
      segment_.operation = operation;
      Answer();
      const Judgement result = Result();
      EXPECT_TRUE(result.ok) << result.message;
      EXPECT_LT(result.worst, 0.6);
      EXPECT_EQ(result.failures, 0);
    }
  }
}

TEST_F(JudgeTest, RefusesZeros) {
  std::fill(output_.begin(), output_.end(), 0.0f);
  const Judgement result = Result();
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failures, kRows * (kCols + 1));  // every element and every sum
  EXPECT_GT(result.worst, 1000);
  EXPECT_THAT(result.message, HasSubstr("row 0 of 7, column 0 of 100: got 0, expected 0.0"));
}

TEST_F(JudgeTest, RefusesTheUntouchedBuffer) {
  std::fill(output_.begin(), output_.end(), NAN);
  EXPECT_EQ(Result().failures, kRows * (kCols + 1));
}

TEST_F(JudgeTest, RefusesAnswersToSomethingElse) {
  const std::vector<float> right = output_;
  std::rotate(output_.begin(), output_.begin() + kCols, output_.end());
  EXPECT_FALSE(Result().ok) << "rows off by one";
  output_ = right;
  std::rotate(output_.begin(), output_.begin() + 1, output_.end());
  EXPECT_FALSE(Result().ok) << "columns off by one";
  output_ = input_;
  EXPECT_FALSE(Result().ok) << "a copy of the input";
  output_ = right;
  segment_.operation = Operation::kLogSoftmax;
  EXPECT_EQ(Result().failures, kRows * kCols);
}

TEST_F(JudgeTest, RefusesOneWrongElementAndNamesIt) {
  Out(3, 17) *= 1.0001f;
  const Judgement result = Result();
  EXPECT_EQ(result.failures, 1 + (std::fabs(Out(3, 17) * 1e-4) > 1e-6 ? 1 : 0));
  EXPECT_THAT(result.message, HasSubstr("softmax fp32 to fp32, row 3 of 7, column 17 of 100"));
}

// The bound of an element with d = 0 is 6 ulp or, as promised, 16: 5 away passes the first, 7 away fails, and so on.
TEST_F(JudgeTest, TheBoundIsWhereItIsSaidToBe) {
  input_.assign(input_.size(), -200.0f);
  for (std::int64_t r = 0; r < kRows; ++r) {
    At(r, 0) = At(r, 1) = At(r, 2) = 0;
  }
  segment_.outer = 1;
  Answer();
  const float exact = Out(0, 0);  // a third, where 6 ulp are 1.8e-7 and leave the sum within 1e-6
  for (const int direction : {-1, 1}) {
    Out(0, 0) = exact + static_cast<float>(direction) * 5 * 0x1p-25f;
    EXPECT_TRUE(Result().ok) << Result().message;
    EXPECT_NEAR(Result().worst, 5.0 / 6, 0.1);
    Out(0, 0) = exact + static_cast<float>(direction) * 7 * 0x1p-25f;
    EXPECT_EQ(Result().failures, 1);
    Out(0, 0) = exact + static_cast<float>(direction) * 15 * 0x1p-25f;
    EXPECT_TRUE(Result(Bounds::kPromised).ok) << Result(Bounds::kPromised).message;
    Out(0, 0) = exact + static_cast<float>(direction) * 17 * 0x1p-25f;
    EXPECT_EQ(Result(Bounds::kPromised).failures, 1);
  }
}

// One element 4.5 above 99 equal ones has 0.476, and D is 2.36: it may be 6 + 1.5 * 2.36 = 9.5 ulp off.
TEST_F(JudgeTest, TheMeanDistanceWidensTheBound) {
  std::fill(input_.begin(), input_.end(), 0.0f);
  At(0, 0) = 4.5f;
  segment_.outer = 1;
  Answer();
  const float exact = Out(0, 0);
  Out(0, 0) = exact + 9 * 0x1p-25f;
  EXPECT_TRUE(Result().ok) << Result().message;
  EXPECT_NEAR(Result().worst, 9 / 9.5, 0.06);
  Out(0, 0) = exact + 11 * 0x1p-25f;
  EXPECT_EQ(Result().failures, 1);
}

TEST_F(JudgeTest, TheLogBoundIsWhereItIsSaidToBe) {
  input_.assign(input_.size(), 0.0f);
  segment_.operation = Operation::kLogSoftmax;
  Answer();
  const float exact = Out(0, 5);  // -4.6, whose ulp is 2^-21
  Out(0, 5) = exact + 1 * 0x1p-21f;
  EXPECT_TRUE(Result().ok) << Result().message;
  Out(0, 5) = exact + 3 * 0x1p-21f;
  EXPECT_EQ(Result().failures, 1);
  EXPECT_TRUE(Result(Bounds::kPromised).ok) << Result(Bounds::kPromised).message;
  Out(0, 5) = exact + 5 * 0x1p-21f;
  EXPECT_EQ(Result(Bounds::kPromised).failures, 1);
}

TEST_F(JudgeTest, RefusesADriftThatOnlyTheSumShows) {
  input_.assign(input_.size(), 0.0f);
  Answer();
  for (float& y : output_) {
    y *= 1.0f + 0x1p-23f * 2;  // two ulp each, all the same way: 2.4e-7
  }
  EXPECT_TRUE(Result().ok) << Result().message;
  for (std::int64_t c = 0; c < kCols; ++c) {
    At(0, c) = -static_cast<float>(c) * 0.1f;
  }
  Answer();
  for (std::int64_t c = 0; c < kCols; ++c) {
    Out(0, c) = Out(0, c) * (1.0f + 0x1p-23f * 5 + (c > 20 ? 0x1p-23f * 5 : 0.0f));
  }
  EXPECT_FALSE(Result().ok);
}

TEST_F(JudgeTest, KnowsEdgeRows) {
  At(1, 5) = -kInfinity;
  At(2, 5) = NAN;
  At(3, 5) = kInfinity;
  for (std::int64_t c = 0; c < kCols; ++c) {
    At(4, c) = -kInfinity;
  }
  Answer();
  std::fill(&Out(3, 0), &Out(3, 0) + kCols, NAN);
  std::fill(&Out(4, 0), &Out(4, 0) + kCols, NAN);
  EXPECT_TRUE(Result().ok) << Result().message;

  for (const std::int64_t row : {2, 3, 4}) {
    Out(row, 99) = 0;
    EXPECT_EQ(Result().failures, 1) << row;
    Out(row, 99) = NAN;
  }
  Out(1, 5) = 1e-45f;
  EXPECT_EQ(Result().failures, 1);
  Out(1, 5) = -0.0f;
  EXPECT_EQ(Result().failures, 1);
}

TEST_F(JudgeTest, RefusesAWrongTail) {
  const std::vector<std::uint32_t> lengths = {100, 0, 1, 50, 99, 100, 7};
  segment_.lengths = lengths.data();
  for (const Operation operation : testing::AllOperations()) {
    segment_.operation = operation;
    At(3, 70) = NAN;  // beyond the length: must not matter
    Answer();
    EXPECT_TRUE(Result().ok) << Result().message;
    const float masked = Out(2, 50);
    Out(2, 50) = TraitsOf(operation).is_log ? 0.0f : 1e-30f;
    EXPECT_EQ(Result().failures, 1);
    Out(2, 50) = masked;
    Out(1, 99) = masked;  // length 0: the tail is NaN too
    EXPECT_EQ(Result().failures, 1);
    Out(1, 99) = NAN;
    Out(4, 98) = masked;  // the last element that counts
    EXPECT_GE(Result().failures, 1);
  }
}

TEST_F(JudgeTest, ReadsOtherAxesAndStrides) {
  std::vector<float> turned_in(1000, 5.0f);
  std::vector<float> turned_out(1000, 5.0f);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kCols; ++c) {
      turned_in[static_cast<std::size_t>(c * kRows + r)] = At(r, c);
      turned_out[static_cast<std::size_t>(c * kRows + r)] = Out(r, c);
    }
  }
  segment_.input = turned_in.data();
  segment_.output = turned_out.data();
  segment_.outer = 1;
  segment_.inner = kRows;
  EXPECT_TRUE(Result().ok) << Result().message;
  std::swap(turned_out[3 * kRows], turned_out[3 * kRows + 1]);
  EXPECT_FALSE(Result().ok);
}

TEST(JudgeSixteenTest, TakesTheRoundedValueAndNoOtherNeighbour) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    std::vector<std::uint16_t> in(3, 0);
    std::vector<std::uint16_t> out(3);
    for (int i = 0; i < 3; ++i) {
      StoreElement(type, out.data(), i, 1.0 / 3);  // a third is not near a tie in either type
    }
    Segment segment{in.data(), out.data(), nullptr, 1, 3, 1, 3, 3, 1.0, Operation::kSoftmax};
    EXPECT_TRUE(Judge(type, type, segment).ok);
    for (const int step : {-1, 1}) {
      out[1] = static_cast<std::uint16_t>(out[0] + step);
      EXPECT_EQ(Judge(type, type, segment).failures, 1);
    }
  }
}

TEST(JudgeDoubleTest, HoldsDoublesToTheirOwnPrecision) {
  std::vector<double> in(3, 0.0);
  std::vector<double> out(3, 1.0 / 3);
  Segment segment{in.data(), out.data(), nullptr, 1, 3, 1, 3, 3, 1.0, Operation::kSoftmax};
  EXPECT_TRUE(Judge(DataType::kFloat64, DataType::kFloat64, segment, Bounds::kUsual).ok);
  out[1] += 5 * 0x1p-54;
  EXPECT_TRUE(Judge(DataType::kFloat64, DataType::kFloat64, segment, Bounds::kUsual).ok);
  out[1] += 2 * 0x1p-54;
  EXPECT_EQ(Judge(DataType::kFloat64, DataType::kFloat64, segment, Bounds::kUsual).failures, 1);
  out.assign(3, static_cast<double>(1.0f / 3));
  EXPECT_GE(Judge(DataType::kFloat64, DataType::kFloat64, segment).failures, 3);
}

TEST(ElementTest, SixteenBitNumbersSurviveTheRoundTrip) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (int bits = 0; bits < 65536; ++bits) {
      const auto before = static_cast<std::uint16_t>(bits);
      const double value = LoadElement(type, &before, 0);
      std::uint16_t after = 0;
      StoreElement(type, &after, 0, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(LoadElement(type, &after, 0)));
      } else {
        EXPECT_EQ(before, after);
      }
    }
  }
}

std::uint16_t Stored(DataType type, double value) {
  std::uint16_t bits = 0;
  StoreElement(type, &bits, 0, value);
  return bits;
}

TEST(ElementTest, KnownHalves) {
  EXPECT_EQ(Stored(DataType::kFloat16, 1.0), 0x3c00);
  EXPECT_EQ(Stored(DataType::kFloat16, -2.0), 0xc000);
  EXPECT_EQ(Stored(DataType::kFloat16, 65504), 0x7bff);
  EXPECT_EQ(Stored(DataType::kFloat16, 65519.99), 0x7bff);
  EXPECT_EQ(Stored(DataType::kFloat16, 65520), 0x7c00);
  EXPECT_EQ(Stored(DataType::kFloat16, -1e300), 0xfc00);
  EXPECT_EQ(Stored(DataType::kFloat16, 0x1p-24), 0x0001);
  EXPECT_EQ(Stored(DataType::kFloat16, 0x1p-25), 0x0000);  // a tie goes to even
  EXPECT_EQ(Stored(DataType::kFloat16, 0x1.000001p-25), 0x0001);
  EXPECT_EQ(Stored(DataType::kFloat16, 0x1.8p-24), 0x0002);      // a tie goes to even
  EXPECT_EQ(Stored(DataType::kFloat16, 0x1.ffep-15), 0x0400);    // up to the first normal number
  EXPECT_EQ(Stored(DataType::kFloat16, 1 + 0x1p-11), 0x3c00);    // a tie goes to even
  EXPECT_EQ(Stored(DataType::kFloat16, 1 + 0x1.8p-10), 0x3c02);  // a tie goes to even
  EXPECT_EQ(Stored(DataType::kFloat16, -0.0), 0x8000);
}

TEST(ElementTest, KnownBFloats) {
  EXPECT_EQ(Stored(DataType::kBFloat16, 1.0), 0x3f80);
  EXPECT_EQ(Stored(DataType::kBFloat16, 1 + 0x1p-8), 0x3f80);            // a tie goes to even
  EXPECT_EQ(Stored(DataType::kBFloat16, 1 + 0x1.8p-7), 0x3f82);          // a tie goes to even
  EXPECT_EQ(Stored(DataType::kBFloat16, 1 + 0x1p-8 + 0x1p-50), 0x3f81);  // one rounding, not two
  EXPECT_EQ(Stored(DataType::kBFloat16, 0x1p-133), 0x0001);
  EXPECT_EQ(Stored(DataType::kBFloat16, 0x1p-134), 0x0000);
  EXPECT_EQ(Stored(DataType::kBFloat16, 0x1.ffp127), 0x7f80);
  EXPECT_EQ(Stored(DataType::kBFloat16, 0x1.fep127), 0x7f7f);
  EXPECT_EQ(LoadElement(DataType::kBFloat16, "\x80\x3f", 0), 1.0);
}

}  // namespace
}  // namespace softmax::kernels
