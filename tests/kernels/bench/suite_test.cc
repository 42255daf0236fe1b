#include "kernels/bench/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "kernels/bench/built_in.h"

namespace softmax::kernels::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const std::string& text, const SuiteSettings& settings = {}) {
  std::vector<Point> points;
  EXPECT_EQ(ParseSuite(text, settings, &points), "");
  std::vector<std::string> lines;
  for (const Point& point : points) lines.push_back(Describe(point));
  return lines;
}

std::string ProblemOf(const std::string& text) {
  std::vector<Point> points;
  return ParseSuite(text, {}, &points);
}

TEST(SuiteTest, ExpandsListsAndRanges) {
  EXPECT_THAT(Lines("a fp32,bf16 softmax 4 7"), ElementsAre("a fp32 softmax 4 7", "a bf16 softmax 4 7"));
  EXPECT_THAT(Lines("a fp32 softmax,log_softmax 4 7"), ElementsAre("a fp32 softmax 4 7", "a fp32 log_softmax 4 7"));
  EXPECT_THAT(Lines("a fp32 softmax 2 1..3,9"),
              ElementsAre("a fp32 softmax 2 1", "a fp32 softmax 2 2", "a fp32 softmax 2 3", "a fp32 softmax 2 9"));
  EXPECT_THAT(Lines("a fp32 softmax 2 5..12:5"), ElementsAre("a fp32 softmax 2 5", "a fp32 softmax 2 10"));
  EXPECT_THAT(Lines("a fp32 softmax 2 3..12*2"),
              ElementsAre("a fp32 softmax 2 3", "a fp32 softmax 2 6", "a fp32 softmax 2 12"));
  EXPECT_THAT(Lines("a fp32 softmax 1,8 64"), ElementsAre("a fp32 softmax 1 64", "a fp32 softmax 8 64"));
}

TEST(SuiteTest, ReadsSmallAnswers) {
  EXPECT_THAT(Lines("a fp32 softmax+top20,log_softmax+top1 4 7"),
              ElementsAre("a fp32 softmax+top20 4 7", "a fp32 log_softmax+top1 4 7"));
  EXPECT_THAT(ProblemOf("a fp32 softmax+top0 4 7"), HasSubstr("op softmax+top0"));
  EXPECT_THAT(ProblemOf("a fp32 softmax+top1025 4 7"), HasSubstr("op softmax+top1025"));
  EXPECT_THAT(ProblemOf("a fp32 softmax+top20x 4 7"), HasSubstr("op softmax+top20x"));
  EXPECT_THAT(ProblemOf("a fp32 softmax+top20 4 7 +1"), HasSubstr("dense rows alone"));
}

TEST(SuiteTest, FillsTheTensor) {
  const SuiteSettings settings{1 << 20, 1};
  EXPECT_THAT(Lines("a fp32,bf16 softmax fill 1000", settings),
              ElementsAre("a fp32 softmax 262 1000", "a bf16 softmax 524 1000"));
  EXPECT_THAT(Lines("a fp32 softmax fill 8388608", settings), ElementsAre("a fp32 softmax 1 8388608"));
}

TEST(SuiteTest, ReadsLayouts) {
  EXPECT_THAT(Lines("a fp32 softmax 4 100 +8"), ElementsAre("a fp32 softmax 4 100 108"));
  EXPECT_THAT(Lines("a fp32 softmax 4 100 131"), ElementsAre("a fp32 softmax 4 100 131"));
  EXPECT_THAT(Lines("a fp32 softmax 12 100 3,4"), ElementsAre("a fp32 softmax 12 100 3,4"));
  EXPECT_THAT(Lines("a fp32 softmax 12 100 /3"), ElementsAre("a fp32 softmax 12 100 /3"));
  EXPECT_THAT(Lines("a fp32 softmax 12 100 <half"), ElementsAre("a fp32 softmax 12 100 <half"));
  EXPECT_THAT(Lines("a fp32 softmax 12 ~1..50"), ElementsAre("a fp32 softmax 12 50 ~1"));
}

TEST(SuiteTest, RowsHaveTheLengthsThatTheLayoutNames) {
  Point point;
  point.rows = 3;
  point.cols = 100;
  point.lengths = Lengths::kFull;
  EXPECT_THAT(MakeLengths(point, 1), ElementsAre(100, 100, 100));
  point.lengths = Lengths::kHalf;
  EXPECT_THAT(MakeLengths(point, 1), ElementsAre(50, 50, 50));
  point.lengths = Lengths::kEighth;
  EXPECT_THAT(MakeLengths(point, 1), ElementsAre(12, 12, 12));
  point.lengths = Lengths::kDrawn;
  point.rows = 1000;
  point.cols = 5;
  const auto drawn = MakeLengths(point, 1);
  EXPECT_EQ(std::set<std::uint32_t>(drawn.begin(), drawn.end()), (std::set<std::uint32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(MakeLengths(point, 1), drawn);
}

TEST(SuiteTest, SkipsCommentsAndEmptyLines) {
  EXPECT_THAT(Lines("# all of it\n\n  a fp32 softmax 4 7 # the rest\n"), ElementsAre("a fp32 softmax 4 7"));
  EXPECT_THAT(Lines("#\n\n"), IsEmpty());
}

TEST(SuiteTest, SaysWhichLineIsWrongAndWhy) {
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 7\na fp32 softmax 4"), HasSubstr("line 2: expected"));
  EXPECT_THAT(ProblemOf("a fp8 softmax 4 7"), HasSubstr("dtype fp8"));
  EXPECT_THAT(ProblemOf("host_mapped bf16>fp32 softmax 4 7"), HasSubstr("dtype bf16>fp32: host_mapped"));
  EXPECT_THAT(ProblemOf("a fp32 relu 4 7"), HasSubstr("op relu"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 0 7"), HasSubstr("M 0"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 9..7"), HasSubstr("N 9..7"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 1..7*1"), HasSubstr("N 1..7*1"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 0x10"), HasSubstr("N 0x10"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 7 3"), HasSubstr("layout 3"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 7 3,2"), HasSubstr("layout 3,2"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 7 /3"), HasSubstr("layout /3"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 7 <third"), HasSubstr("layout <third"));
  EXPECT_THAT(ProblemOf("a fp32 softmax 4 ~1..7 +1"), HasSubstr("layout +1"));
}

TEST(SuiteTest, DrawsTheSameWidthsFromTheSameSeed) {
  const std::string text = "a fp32 softmax 1 20~5..2000000";
  EXPECT_EQ(Lines(text, {1, 7}), Lines(text, {1, 7}));
  EXPECT_NE(Lines(text, {1, 7}), Lines(text, {1, 8}));
  std::vector<Point> points;
  ASSERT_EQ(ParseSuite(text, {1, 7}, &points), "");
  ASSERT_EQ(points.size(), 20U);
  EXPECT_TRUE(
      std::all_of(points.begin(), points.end(), [](const Point& p) { return p.cols >= 5 && p.cols <= 2000000; }));
}

TEST(SuiteTest, EverySuiteOfTheProgramCanBeRead) {
  std::istringstream names(BuiltInNames());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    std::string text;
    ASSERT_EQ(LoadSuite(name, &text), "") << name;
    EXPECT_THAT(Lines(text), Not(IsEmpty())) << name;
  }
}

TEST(SuiteTest, TheTutorialHasItsShapes) {
  std::string text;
  ASSERT_EQ(LoadSuite("tutorial", &text), "");
  std::vector<Point> points;
  ASSERT_EQ(ParseSuite(text, {}, &points), "");
  ASSERT_EQ(points.size(), 3U * 98);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].rows, 4096);
    EXPECT_EQ(points[i].cols, 128 * static_cast<std::int64_t>(2 + i % 98));
  }
}

TEST(PointTest, RaggedSegmentsLieOneBehindTheOther) {
  std::vector<Point> points;
  ASSERT_EQ(ParseSuite("a bf16 softmax 50 ~3..90", {}, &points), "");
  char input[1];
  const std::vector<Segment> segments = MakeSegments(points[0], 1, input, input);
  ASSERT_EQ(segments.size(), 50U);
  std::int64_t elements = 0;
  for (const Segment& segment : segments) {
    EXPECT_EQ(static_cast<const char*>(segment.input) - input, elements * 2);
    EXPECT_GE(segment.cols, 3);
    EXPECT_LE(segment.cols, 90);
    elements += segment.cols;
  }
  EXPECT_EQ(PayloadElements(points[0], 1), elements);
}

TEST(PointTest, TheSpanEndsWithTheLastElement) {
  std::vector<Point> points;
  ASSERT_EQ(ParseSuite("a fp32 softmax 4 100 +8\na fp32 softmax 12 100 3,4", {}, &points), "");
  EXPECT_EQ(SpanElements(points[0], 1), 3 * 108 + 100);
  EXPECT_EQ(PayloadElements(points[0], 1), 400);
  EXPECT_EQ(SpanElements(points[1], 1), 1200);
}

}  // namespace
}  // namespace softmax::kernels::bench
