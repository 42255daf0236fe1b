#include "common/base/help_text.h"

#include <gtest/gtest.h>

namespace softmax {
namespace {

constexpr std::size_t kColumns = 50;

TEST(HelpText, WhatIsBrokenGoesOnBelowTheTextOfItsFlag) {
  EXPECT_EQ(WrapHelp("  --address ADDRESS    Where to serve: host:port, [v6]:port or unix:/path\n", kColumns),
            "  --address ADDRESS    Where to serve: host:port,\n"
            "                       [v6]:port or unix:/path\n");
  EXPECT_EQ(WrapHelp("          one two three four five six seven eight nine ten\n", kColumns),
            "          one two three four five six seven eight\n"
            "          nine ten\n");
}

TEST(HelpText, LinesOfTheMarginGoOnThere) {
  EXPECT_EQ(WrapHelp("Serves softmax over gRPC, in batches, on CUDA or on the CPU.\n\nUsage: x\n", kColumns),
            "Serves softmax over gRPC, in batches, on CUDA or\non the CPU.\n\nUsage: x\n");
}

TEST(HelpText, AWordThatIsTooLongStandsOut) {
  const std::string word(70, 'x');
  EXPECT_EQ(WrapHelp("  --a    " + word + " b\n", kColumns), "  --a    " + word + "\n         b\n");
}

TEST(HelpText, NoTerminalNoWrapping) {
  const std::string line(200, 'x');
  EXPECT_EQ(WrapHelp(line + " y\n", 0), line + " y\n");
  EXPECT_EQ(WrapHelp(line + " y\n", 20), line + " y\n");
}

}  // namespace
}  // namespace softmax
