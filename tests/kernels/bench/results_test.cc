#include "kernels/bench/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace softmax::kernels::bench {
namespace {

using ::testing::ElementsAre;

Result GoodResult() {
  Point point;
  point.section = "throughput";
  point.dtype = point.output_dtype = DataType::kBFloat16;
  point.operation = Operation::kLogSoftmax;
  point.rows = 4096;
  point.cols = 256;
  return {point, "softmax", 2.5, 1500, 2000, 30, "graph64", ""};
}

Result FailedResult() {
  Result result = GoodResult();
  result.provider = "naive";
  result.error = "out of memory";
  return result;
}

constexpr char kGoodRow[] = "throughput,bf16,log_softmax,4096,256,softmax,2.500,1500.00,2000.00,0.7500,30,graph64";
constexpr char kFailedRow[] = "throughput,bf16,log_softmax,4096,256,naive,,,,,,";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class ResultFileTest : public testing::Test {
 protected:
  ~ResultFileTest() override { std::remove(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "results_test.csv";
};

TEST(ResultsTest, RowsHaveTheColumnsOfTheHeader) {
  EXPECT_EQ(CsvRow(GoodResult()), kGoodRow);
  EXPECT_EQ(CsvRow(FailedResult()), kFailedRow);
}

TEST(ResultsTest, OnlyRowsWithARatioAreDone) {
  const std::string csv = std::string(kCsvHeader) + "\n" + kGoodRow + "\n" + kFailedRow + "\n";
  EXPECT_THAT(KeysOf(csv), ElementsAre("throughput,bf16,log_softmax,4096,256,softmax"));
  EXPECT_EQ(WithoutFailures(csv), std::string(kCsvHeader) + "\n" + kGoodRow + "\n");
}

TEST(ResultsTest, ARowCutOffByTheEndOfTheProgramIsNotDone) {
  const std::string csv = std::string(kCsvHeader) + "\nthroughput,bf16,log_softmax,4096,256,softmax,2.5";
  EXPECT_TRUE(KeysOf(csv).empty());
}

TEST_F(ResultFileTest, ResumesWhatIsThere) {
  {
    ResultFile file;
    ASSERT_EQ(file.Open(path_, false), "");
    file.Add(GoodResult());
    file.Add(FailedResult());
  }
  ResultFile file;
  ASSERT_EQ(file.Open(path_, true), "");
  EXPECT_TRUE(file.Has(GoodResult().point, "softmax"));
  EXPECT_FALSE(file.Has(GoodResult().point, "naive"));
  EXPECT_EQ(Read(path_), std::string(kCsvHeader) + "\n" + kGoodRow + "\n");
}

TEST_F(ResultFileTest, StartsAfreshWithoutResume) {
  {
    ResultFile file;
    ASSERT_EQ(file.Open(path_, false), "");
    file.Add(GoodResult());
  }
  ResultFile file;
  ASSERT_EQ(file.Open(path_, false), "");
  EXPECT_FALSE(file.Has(GoodResult().point, "softmax"));
  EXPECT_EQ(Read(path_), std::string(kCsvHeader) + "\n");
}

TEST_F(ResultFileTest, DoesNotTouchAFileOfAnotherKind) {
  std::ofstream(path_) << "a,b,c\n1,2,3\n";
  ResultFile file;
  EXPECT_NE(file.Open(path_, true), "");
  EXPECT_EQ(Read(path_), "a,b,c\n1,2,3\n");
}

TEST(MedianTest, TakesTheMiddle) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
}

}  // namespace
}  // namespace softmax::kernels::bench
