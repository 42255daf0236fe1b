#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/client/support/fake_server.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

// What people and their programs hand to softmax-client, and where its answers go.
namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kTwoRows[] = "0.5 0.5\n0.5 0.5\n";

class InputsTest : public ::testing::Test {
 protected:
  ProgramResult Run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {"--address", server_.address()});
    return RunProgram(SOFTMAX_CLIENT, arguments, input);
  }

  void ExpectRefused(const ProgramResult& result, const std::string& words) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("softmax-client: "));
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_EQ(server_.requests(), 0);
  }

  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  FakeServer server_;
  softmax::testing::TempFolder folder_;
};

TEST_F(InputsTest, EveryKindOfLineEndEndsALine) {
  for (const char* text : {"1 1\n2 2\n", "1 1\r\n2 2\r\n", "1 1\r2 2\r", "1 1\r2 2", "\r\n1 1\r\r\n2 2\n\r"}) {
    EXPECT_EQ(Run({}, text).out, kTwoRows) << text;
  }
  EXPECT_THAT(Run({}, "1 1\r\n\r3 x\n").err, HasSubstr("line 3: 'x' is not a number"));
}

TEST_F(InputsTest, AByteOrderMarkIsNotANumber) {
  EXPECT_EQ(Run({},
                "\xef\xbb\xbf"
                "1 1\n2 2\n")
                .out,
            kTwoRows);
  EXPECT_EQ(Run({folder_.Write("x.csv",
                               "\xef\xbb\xbf"
                               "1,1\r\n2,2\r\n")})
                .out,
            "0.5,0.5\n0.5,0.5\n");
}

TEST_F(InputsTest, TextThatIsNoUtf8IsNamed) {
  ExpectRefused(Run({}, std::string("\xff\xfe"
                                    "1\0\n\0",
                                    6)),
                "standard input: is UTF-16; save it as UTF-8");
  ExpectRefused(Run({}, std::string("\xfe\xff\0"
                                    "1\0\n",
                                    6)),
                "standard input: is UTF-16; save it as UTF-8");
  ExpectRefused(Run({}, std::string("1\0\n\0", 4)), "standard input: has zero bytes");
}

TEST_F(InputsTest, WhatCannotBeSeenIsNamed) {
  ExpectRefused(Run({}, "1 \x1b[31m2\n"), "'\\u001b[31m2' is not a number");
  ExpectRefused(Run({},
                    "1 \xef\xbb\xbf"
                    "2\n"),
                "'\\ufeff2' is not a number");
  ExpectRefused(Run({},
                    "1\xc2\xa0"
                    "2\n"),
                "'1\\u00a02' is not a number");
  ExpectRefused(Run({},
                    "1 \xe2\x80\xae"
                    "2\xff\n"),
                "'\\u202e2\\xff' is not a number");
  ExpectRefused(Run({"--no-\x1b[31m"}), "\\u001b[31m");
  ExpectRefused(Run({"/nonexistent/\x1b[31m"}), "/nonexistent/\\u001b[31m: No such file");
  ExpectRefused(Run({}, "\xc3\xa9\n"), "'\xc3\xa9' is not a number");
}

TEST_F(InputsTest, WhatWouldBecomeInfinityIsRefused) {
  ExpectRefused(Run({}, "0 1\n1 1e39\n"),
                "standard input: element [1, 1], counted from 0: 1e+39 is too large for float32");
  ExpectRefused(Run({}, "-1e39 1\n"), "[0, 0], counted from 0: -1e+39");
  ExpectRefused(Run({"--dtype", "float16"}, "1 70000\n"), "70000 is too large for float16");
  ExpectRefused(Run({"--dtype", "bfloat16"}, "1 3.3e38\n3.4028235e38 1\n"), "[1, 0]");
  EXPECT_EQ(Run({"--dtype", "float64"}, "1e39 1e39\n").out, "0.5 0.5\n");
  EXPECT_EQ(Run({"--overflow-to-infinity"}, "-1e39 0 0\n").out, "0 0.5 0.5\n");
  EXPECT_EQ(Run({}, "-inf 0 0\n").out, "0 0.5 0.5\n");
  EXPECT_EQ(Run({"--dtype", "float16"}, "65504 65519\n").out, "0.5 0.5\n");
}

TEST_F(InputsTest, NumbersBeyondADouble) {
  EXPECT_EQ(Run({}, "1e-400 -1e-400\n").out, "0.5 0.5\n");
  EXPECT_EQ(Run({}, "-1e400 0 0\n").out, "0 0.5 0.5\n");
  const ProgramResult large = Run({}, "0 0\n0 1e400\n");
  EXPECT_EQ(large.exit_code, 2);
  EXPECT_THAT(large.err, HasSubstr("standard input: line 2: '1e400' is too large for a number"));
  EXPECT_EQ(Run({}, "0 +1e400\n").exit_code, 2);
  EXPECT_EQ(Run({}, "0 +-1\n").exit_code, 2);
}

TEST_F(InputsTest, CommentsOfNumpySavetxtAreSkipped) {
  EXPECT_EQ(Run({}, "# made by me, yesterday\n1 1\n2 2 # two\n").out, kTwoRows);
  EXPECT_EQ(Run({}, "#a,b\n1,1\n").out, "0.5,0.5\n");
}

TEST_F(InputsTest, ArchivesAndCompressedFilesAreNamed) {
  ExpectRefused(Run({folder_.Write("x.npz", std::string("PK\x03\x04\0\0", 6))}), "x.npz: is a zip archive");
  ExpectRefused(Run({}, "\x1f\x8b\x08 1 2"), "standard input: is compressed with gzip");
  ExpectRefused(Run({"--format", "csv"},
                    "\xfd"
                    "7zXZ"),
                "is compressed with xz");
}

TEST_F(InputsTest, WhatIsNoFileIsRefused) {
  ExpectRefused(Run({"/tmp"}), "/tmp: is a folder");
  ExpectRefused(Run({"/dev/zero"}), "/dev/zero: is a device");
  ExpectRefused(Run({"--ca", "/tmp"}, "1"), "--ca /tmp: is a folder");
  ExpectRefused(Run({"--token-file", "/dev/zero"}, "1"), "--token-file /dev/zero: is a device");
  ExpectRefused(Run({"--ca", ""}, "1"), "--ca");
  ExpectRefused(Run({"--ca", folder_.Write("empty", "")}, "1"), "empty: is empty");
  ExpectRefused(Run({"--ca", folder_.Write("large", std::string((1 << 24) + 1, 'x'))}, "1"),
                "more than 16777216 bytes");
}

TEST_F(InputsTest, ATokenFileThatNoHeaderCanCarryIsRefusedAndNotShown) {
  const std::string address = "unix:" + folder_.path("socket");
  FakeServer local(address);
  const auto run = [&](const std::string& token) {
    return RunProgram(SOFTMAX_CLIENT, {"--address", address, "--token-file", folder_.Write("token", token)}, "1 1");
  };
  EXPECT_EQ(run("secret\n").out, "0.5 0.5\n");
  for (const std::string token :
       {"secret\r\n", "secret\rmore", "sec\x1bret", "\xef\xbb\xbfsecret", "secret\nother\n"}) {
    const ProgramResult result = run(token);
    EXPECT_EQ(result.exit_code, 2) << token;
    EXPECT_THAT(result.err, HasSubstr("token: character ")) << token;
    EXPECT_THAT(result.err, Not(HasSubstr("secret")));
    EXPECT_THAT(result.err, Not(HasSubstr("73 65 63")));  // as gRPC prints it
  }
  EXPECT_THAT(run("secret\r\n").err, HasSubstr("character 7 is a carriage return"));
  EXPECT_THAT(run("\n").err, HasSubstr("is empty"));
  EXPECT_EQ(local.requests(), 1);
}

TEST_F(InputsTest, HealthDoesNotSendATokenInPlainText) {
  const ProgramResult result = Run({"--health", "--token-file", folder_.Write("token", "secret\n")});
  ExpectRefused(result, "bearer_token: needs tls");
}

TEST_F(InputsTest, TheAnswerIsWrittenAsItsNameSays) {
  const auto path = [&](const char* name) { return folder_.path(name); };
  EXPECT_EQ(Run({"--output", path("a.npy")}, "1,1\n").err, "");
  EXPECT_THAT(Content(path("a.npy")), StartsWith("\x93NUMPY"));
  EXPECT_EQ(Run({path("a.npy"), "--output", path("b.csv")}).err, "");
  EXPECT_EQ(Content(path("b.csv")), "0.5,0.5\n");
  EXPECT_EQ(Run({path("b.csv"), "--output", path("c.TXT")}).err, "");
  EXPECT_EQ(Content(path("c.TXT")), "0.5 0.5\n");
  EXPECT_EQ(Run({path("b.csv"), "--output", path("d")}).err, "");
  EXPECT_EQ(Content(path("d")), "0.5,0.5\n");
  for (const char* name : {"e.npz", "e.npy.gz"}) {
    EXPECT_EQ(Run({"--output", path(name)}, "1 1").exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(path(name)));
  }
}

TEST_F(InputsTest, AnOutputThatCannotBeWrittenIsFoundBeforeTheCall) {
  ExpectRefused(Run({"--output", folder_.path("missing/x.npy")}, "1 1"), "missing/x.npy: its folder ");
  ExpectRefused(Run({"--output", folder_.path("")}, "1 1"), "is a folder");
}

TEST_F(InputsTest, AnOldFileOutlivesAFailure) {
  const std::string output = folder_.Write("keep.csv", "old");
  server_.behavior().refuse = true;
  EXPECT_EQ(Run({"--output", output}, "1 1").exit_code, 1);
  EXPECT_EQ(Content(output), "old");
  server_.behavior().refuse = false;
  std::string row;
  for (int i = 0; i < 2000; ++i) row += "1 ";
  const ProgramResult cut = RunProgram(
      "/bin/sh",
      {"-c", "ulimit -f 1; exec \"$0\" \"$@\"", SOFTMAX_CLIENT, "--address", server_.address(), "--output", output},
      row);
  EXPECT_EQ(cut.exit_code, 3) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("keep.csv: File too large, for 12000 bytes"));
  EXPECT_EQ(Content(output), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("")), {}), 1);
}

TEST_F(InputsTest, TheNewFileHasTheOldOnesPlaceAndRights) {
  const std::string output = folder_.Write("keep.csv", "old");
  const std::string link = folder_.path("link.csv");
  std::filesystem::create_symlink(output, link);
  chmod(output.c_str(), 0640);
  EXPECT_EQ(Run({"--output", link}, "1 1").err, "");
  EXPECT_EQ(Content(output), "0.5,0.5\n");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  struct stat info = {};
  stat(output.c_str(), &info);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_EQ(Run({"--output", "/dev/null"}, "1 1").exit_code, 0);
  EXPECT_THAT(Run({"--output", "/dev/full"}, "1 1").err, HasSubstr("/dev/full: No space left"));
}

TEST_F(InputsTest, WhatAnErrorRepeatsOfAFlagIsBounded) {
  const std::string value = "\x1b[2J" + std::string(100'000, 'x');
  for (const char* flag : {"--timeout", "--axis", "--output-type", "--top", "--no-such-flag", "--token-file"}) {
    const ProgramResult result = Run({flag, value}, "1 1");
    EXPECT_EQ(result.exit_code, 2) << flag;
    EXPECT_LT(result.err.size(), 2000u) << flag;
    EXPECT_THAT(result.err, Not(HasSubstr("\x1b"))) << flag;
  }
}

TEST_F(InputsTest, AServersWordsDoNotSteerTheTerminal) {
  server_.behavior().control_characters = true;
  server_.behavior().fail_next = 1;
  server_.behavior().fail_code = 13;
  const ProgramResult result = Run({}, "1 1");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "softmax-client: " + server_.address() + ": \\u001b[2Jnot\\nnow\\u0007\n");
}

TEST_F(InputsTest, AServerThatIsDownIsToldOfSoon) {
  Program program(SOFTMAX_CLIENT, {"--address", "127.0.0.1:1", "--timeout", "1500000us"}, "1 1");
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, StartsWith("softmax-client: 127.0.0.1:1: no connection within 500 ms; at last: "));
  EXPECT_THAT(result.err, HasSubstr("nobody listens there"));
  EXPECT_THAT(result.err, HasSubstr("waiting 1 s more\n"));
  const ProgramResult health = RunProgram(SOFTMAX_CLIENT, {"--address", "127.0.0.1:1", "--health", "--wait", "1s"});
  EXPECT_EQ(health.exit_code, 3);
  EXPECT_THAT(health.err, StartsWith("softmax-client: waiting for 127.0.0.1:1: nobody listens there"));
}

}  // namespace
}  // namespace softmax::client
