#include "client/base/file.h"

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

class WriteFileTest : public ::testing::Test {
 protected:
  WriteFileTest() {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~WriteFileTest() override { fs::remove_all(folder_); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const std::string folder_ = ::testing::TempDir() + "write_file_test";
  const std::string path_ = folder_ + "/figures.json";
};

TEST_F(WriteFileTest, ReplacesWhatWasThere) {
  EXPECT_TRUE(WriteFile(path_, "old and long").ok());
  chmod(path_.c_str(), 0640);
  EXPECT_TRUE(WriteFile(path_, "new").ok());
  EXPECT_EQ(Read(path_), "new");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0640));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(WriteFileTest, AWriteThatFailsHalfWayLeavesWhatWasThere) {
  std::ofstream(path_) << "keep";
  // In a child, whose files may have 1000 bytes.
  const auto write = [&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &little);
    _exit(absl::IsResourceExhausted(WriteFile(path_, std::string(5000, 'x'))) ? 0 : 1);
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(Read(path_), "keep");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(WriteFileTest, ALinkStaysALink) {
  const std::string link = folder_ + "/link";
  std::ofstream(path_) << "old";
  fs::create_symlink(path_, link);
  EXPECT_TRUE(WriteFile(link, "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(path_), "new");
}

TEST_F(WriteFileTest, ADeviceIsWrittenAsItIs) {
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
  EXPECT_TRUE(WriteFile("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(WriteFile("/dev/full", "text"),
            absl::ResourceExhaustedError("/dev/full: No space left on device, for 4 bytes"));
}

TEST_F(WriteFileTest, WhatCannotBeWrittenIsFoundBefore) {
  EXPECT_TRUE(CheckWritable(path_).ok());
  EXPECT_TRUE(CheckWritable("-").ok());
  EXPECT_THAT(CheckWritable(folder_ + "/missing/figures.json").message(), HasSubstr("No such file"));
  EXPECT_THAT(CheckWritable(folder_).message(), HasSubstr("is a folder"));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(WriteFileTest, AppendsBehindWhatWasThere) {
  EXPECT_TRUE(AppendToFile(path_, "a\n").ok());
  EXPECT_TRUE(AppendToFile(path_, "b\n").ok());
  EXPECT_EQ(Read(path_), "a\nb\n");
}

}  // namespace
}  // namespace softmax::client
