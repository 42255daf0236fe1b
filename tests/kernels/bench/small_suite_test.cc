#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "kernels/bench/bench.h"

namespace softmax::kernels::bench {
namespace {

int RunSuite(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "softmax-kernel-bench");
  int exit_code = -1;
  const auto options = ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), &exit_code);
  return options ? RunBench(*options) : exit_code;
}

// Every point is measured, which it is only if what the kernels wrote is right.
TEST(SmallSuiteTest, EveryPointHasARatio) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "SKIPPED: no GPU";
  const std::string csv = testing::TempDir() + "small_suite_test.csv";
  EXPECT_EQ(RunSuite({"--suite", "small", "--samples", "3", "--csv", csv.c_str(), "--providers",
                      "softmax,copy,naive,row_persistent,rows_per_block,warp,block_smem,block_uncached"}),
            0);
  std::ifstream file(csv);
  std::size_t rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    EXPECT_EQ(line.find(",,"), std::string::npos) << line;
  }
  EXPECT_GT(rows, 200U);
  std::remove(csv.c_str());
}

}  // namespace
}  // namespace softmax::kernels::bench
