#include "kernels/bench/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "kernels/bench/check.h"
#include "kernels/bench/cpu/thread_pool.h"

namespace softmax::kernels::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::optional<Options> Parse(std::vector<const char*> arguments, int* exit_code) {
  arguments.insert(arguments.begin(), "softmax-kernel-bench");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), exit_code);
}

// What the program says about a command line that it does not take.
std::string Refusal(std::vector<const char*> arguments) {
  int exit_code = 0;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Parse(std::move(arguments), &exit_code).has_value());
  EXPECT_EQ(exit_code, 2);
  return testing::internal::GetCapturedStderr();
}

TEST(OptionsTest, SaysWhichFlagIsWrong) {
  EXPECT_THAT(Refusal({}), HasSubstr("--suite or --shape"));
  EXPECT_THAT(Refusal({"--shape", "4by4"}), HasSubstr("--shape 4by4"));
  EXPECT_THAT(Refusal({"--shape", "0x4"}), HasSubstr("--shape 0x4"));
  EXPECT_THAT(Refusal({"--suite", "none-such"}), HasSubstr("--suite none-such"));
  EXPECT_THAT(Refusal({"--shape", "4x4", "--dtype", "fp8"}), HasSubstr("--dtype"));
  EXPECT_THAT(Refusal({"--shape", "4x4", "--providers", "magic"}), HasSubstr("--providers"));
  EXPECT_THAT(Refusal({"--shape", "4x4", "--samples", "0"}), HasSubstr("--samples"));
  EXPECT_THAT(Refusal({"--shape", "4x4", "--resume"}), HasSubstr("--csv"));
}

TEST(OptionsTest, FiltersASuite) {
  int exit_code = 0;
  const auto options = Parse({"--suite", "tutorial", "--dtype", "bf16"}, &exit_code);
  ASSERT_TRUE(options.has_value());
  EXPECT_THAT(options->points, SizeIs(98));
  EXPECT_EQ(options->points[0].dtype, DataType::kBFloat16);
}

TEST(CheckTest, FindsAWrongElementInEachPlaceItLooksAt) {
  std::vector<float> input(64 * 100);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 7);
  std::vector<float> output(input.size(), 0);
  Segment segment;
  segment.input = input.data();
  segment.output = output.data();
  segment.outer = 64;
  segment.cols = 100;
  segment.input_stride = segment.output_stride = 100;
  for (const Strictness strictness : {Strictness::kBounds, Strictness::kRough}) {
    for (std::size_t row = 0; row < 64; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c < 100; ++c) sum += std::exp(input[row * 100 + c]);
      for (std::size_t c = 0; c < 100; ++c) {
        output[row * 100 + c] = static_cast<float>(std::exp(input[row * 100 + c]) / sum);
      }
    }
    EXPECT_EQ(Check(DataType::kFloat32, DataType::kFloat32, segment, strictness, FetchFromHost), "");
    for (const std::size_t row : {std::size_t{0}, std::size_t{32}, std::size_t{63}}) {
      float& element = output[row * 100 + 50];
      const float right = element;
      element *= 1.01F;
      EXPECT_NE(Check(DataType::kFloat32, DataType::kFloat32, segment, strictness, FetchFromHost), "") << row;
      element = right;
    }
  }
}

TEST(ThreadPoolTest, RunsEveryPartOnceAndWaits) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<int> runs(static_cast<std::size_t>(threads), 0);
    for (int round = 0; round < 200; ++round) {
      pool.Run([&](int i) { ++runs[static_cast<std::size_t>(i)]; });
    }
    EXPECT_THAT(runs, testing::Each(200));
  }
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

class BenchTest : public testing::Test {
 protected:
  ~BenchTest() override {
    std::remove(suite_.c_str());
    std::remove(csv_.c_str());
  }

  int Run(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"--suite", suite_.c_str(), "--csv", csv_.c_str(), "--samples", "3"});
    int exit_code = -1;
    const auto options = Parse(std::move(arguments), &exit_code);
    return options ? RunBench(*options) : exit_code;
  }

  const std::string suite_ = testing::TempDir() + "bench_test.txt";
  const std::string csv_ = testing::TempDir() + "bench_test.csv";
};

TEST_F(BenchTest, MeasuresTheCpu) {
  std::ofstream(suite_) << "cpu_1 fp32,bf16 softmax,log_softmax 20 1,781\n"
                           "cpu_all fp32,fp64 softmax 40 64 2,20\n"
                           "cpu_all fp16 softmax 9 100 +3\n"
                           "cpu_1 fp32>bf16,fp64>fp16,bf16>fp32 softmax 500 19 2,250\n";
  ASSERT_EQ(Run({"--threads", "3"}), 0);
  const std::vector<std::string> lines = LinesOf(csv_);
  ASSERT_THAT(lines, SizeIs(1 + 2 * 14));
  EXPECT_EQ(lines[0], kCsvHeader);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], testing::MatchesRegex("cpu_(1|all),[a-z0-9>]+,[a-z_]+,[0-9]+,[0-9]+,(softmax|copy),"
                                                "[0-9.]+,[0-9.]+,[0-9.]+,[0-9.]+,3,wall[0-9]+"));
  }
}

TEST_F(BenchTest, GoesOnWhereItStopped) {
  std::ofstream(suite_) << "cpu_1 fp32 softmax 20 5..8\n";
  EXPECT_EQ(Run({"--max-seconds", "1e-9"}), 3);
  EXPECT_THAT(LinesOf(csv_), SizeIs(1));
  EXPECT_EQ(Run({"--providers", "softmax"}), 0);
  EXPECT_THAT(LinesOf(csv_), SizeIs(1 + 4));
  EXPECT_EQ(Run({"--resume"}), 0);
  EXPECT_THAT(LinesOf(csv_), SizeIs(1 + 8));
  const auto written = LinesOf(csv_);
  EXPECT_EQ(Run({"--resume"}), 0);
  EXPECT_EQ(LinesOf(csv_), written);
}

}  // namespace
}  // namespace softmax::kernels::bench
