#include "client/loadgen/report/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace softmax::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const std::string folder_ = ::testing::TempDir() + "output_file_test";
  const std::string path_ = folder_ + "/figures.json";
};

TEST_F(OutputFileTest, ReplacesWhatWasThere) {
  EXPECT_EQ(ReplaceFile(path_, "old and long"), "");
  chmod(path_.c_str(), 0640);
  EXPECT_EQ(ReplaceFile(path_, "new"), "");
  EXPECT_EQ(Read(path_), "new");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0640));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, AWriteThatFailsHalfWayLeavesWhatWasThere) {
  std::ofstream(path_) << "keep";
  // In a child, whose files may have 1000 bytes.
  const auto write = [&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &little);
    _exit(ReplaceFile(path_, std::string(5000, 'x')).empty() ? 1 : 0);
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(Read(path_), "keep");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, ALinkStaysALink) {
  const std::string link = folder_ + "/link";
  std::ofstream(path_) << "old";
  fs::create_symlink(path_, link);
  EXPECT_EQ(ReplaceFile(link, "new"), "");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(path_), "new");
}

TEST_F(OutputFileTest, ADeviceIsWrittenAsItIs) {
  EXPECT_EQ(OutputProblem("/dev/null"), "");
  EXPECT_EQ(ReplaceFile("/dev/null", "text"), "");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_NE(ReplaceFile("/dev/full", "text"), "");
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsFoundBefore) {
  EXPECT_EQ(OutputProblem(path_), "");
  EXPECT_EQ(OutputProblem("-"), "");
  EXPECT_THAT(OutputProblem(folder_ + "/missing/figures.json"), HasSubstr("No such file"));
  EXPECT_THAT(OutputProblem(folder_), HasSubstr("is a folder"));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(OutputFileTest, AppendsBehindWhatWasThere) {
  EXPECT_EQ(AppendToFile(path_, "a\n"), "");
  EXPECT_EQ(AppendToFile(path_, "b\n"), "");
  EXPECT_EQ(Read(path_), "a\nb\n");
}

}  // namespace
}  // namespace softmax::client
