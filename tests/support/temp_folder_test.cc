#include "tests/support/temp_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <memory>
#include <string>

namespace softmax::testing {
namespace {

using std::filesystem::perms;

TEST(TempFolderTest, WhatGoogleTestGivesIsThisProcessesAlone) {
  EXPECT_EQ(std::filesystem::status(::testing::TempDir()).permissions(), perms::owner_all) << ::testing::TempDir();
}

TEST(TempFolderTest, AForkedChildLeavesItToItsParent) {
  auto folder = std::make_unique<TempFolder>();
  const std::string path = folder->path("");
  const pid_t child = fork();
  if (child == 0) {
    folder.reset();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path));
  folder.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace softmax::testing
