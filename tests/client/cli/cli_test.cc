#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "client/cli/files.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/scoped_environment.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CliTest : public ::testing::Test {
 protected:
  ProgramResult Run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {"--address", server_.address()});
    return RunProgram(SOFTMAX_CLIENT, arguments, input);
  }

  FakeServer server_;
};

TEST_F(CliTest, NumbersGoInAndComeOut) {
  const ProgramResult result = Run({}, "1 2 3\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "0.09003057 0.24472848 0.66524094\n");
}

TEST_F(CliTest, CsvStaysCsvAndOptionsReachTheServer) {
  const ProgramResult result =
      Run({"--axis", "0", "--scale", "2", "--op", "log_softmax", "--output-dtype", "float64"}, "0,5\n0,5\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "-0.6931471805599453,-0.6931471805599453\n-0.6931471805599453,-0.6931471805599453\n");
  const ProgramResult masked = Run({"--lengths", "1,2"}, "1,1\n1,1\n");
  EXPECT_EQ(masked.out, "1,0\n0.5,0.5\n") << masked.err;
  const ProgramResult half = Run({"--dtype", "bfloat16"}, "0 0 0\n");
  EXPECT_EQ(half.out, "0.33398438 0.33398438 0.33398438\n") << half.err;
}

TEST_F(CliTest, NpyStaysNpy) {
  const std::string in = ::testing::TempDir() + "cli_in.npy";
  const std::string out = ::testing::TempDir() + "cli_out.npy";
  const Array array = FromValues(std::vector<double>(24, 1.0), {2, 3, 4}, DataType::kFloat16);
  ASSERT_TRUE(SaveArray(in, Format::kNpy, array).ok());
  const ProgramResult result = Run({in, "--output", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto answer = LoadArray(out, Format::kAuto);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->array.dtype, DataType::kFloat16);
  EXPECT_EQ(answer->array.shape, array.shape);
  EXPECT_EQ(ElementAt(answer->array, 23), 0.25);
}

TEST_F(CliTest, SeveralServersMayBeNamedAndEachIsAskedForItsHealth) {
  FakeServer other;
  const std::string both = server_.address() + "," + other.address();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RunProgram(SOFTMAX_CLIENT, {"--address", both}, "0 0").out, "0.5 0.5\n");
  }
  const ProgramResult health = RunProgram(SOFTMAX_CLIENT, {"--address", both, "--health"});
  EXPECT_EQ(health.exit_code, 0);
  EXPECT_EQ(health.out, server_.address() + ": SERVING\n" + other.address() + ": SERVING\n");
  other.behavior().serving = false;
  const ProgramResult one_draining = RunProgram(SOFTMAX_CLIENT, {"--address", both, "--health", "--wait", "3s"});
  EXPECT_EQ(one_draining.exit_code, 1);
  EXPECT_EQ(one_draining.out, server_.address() + ": SERVING\n");
  EXPECT_EQ(one_draining.err, other.address() + ": NOT_SERVING\n");
  const ProgramResult one_away = RunProgram(SOFTMAX_CLIENT, {"--address", "127.0.0.1:1," + both, "--health"});
  EXPECT_EQ(one_away.exit_code, 3);
  EXPECT_THAT(one_away.err, HasSubstr("127.0.0.1:1: "));
  EXPECT_EQ(one_away.out, server_.address() + ": SERVING\n");
  const ProgramResult no_port = RunProgram(SOFTMAX_CLIENT, {"--address", "localhost"}, "1");
  EXPECT_EQ(no_port.exit_code, 2);
  EXPECT_THAT(no_port.err, HasSubstr("'localhost' has no port"));
}

TEST_F(CliTest, ExitCodesTellWhoseFaultItIs) {
  const ProgramResult bad = Run({}, "1 2\nx\n");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.err, "softmax-client: standard input: line 2: 'x' is not a number\n");
  EXPECT_EQ(Run({"/nonexistent.npy"}).exit_code, 2);
  const ProgramResult unknown = Run({"--no-such-flag"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err, "softmax-client: unknown flag --no-such-flag (--help lists all flags)\n");
  EXPECT_EQ(Run({"--out-put=x"}).err,
            "softmax-client: unknown flag --out-put (did you mean --output?) (--help lists all flags)\n");
  EXPECT_THAT(Run({"a", "b"}).err, HasSubstr("not expected: b"));
  const ProgramResult no_type = Run({"--dtype", "int8"}, "1 2");
  EXPECT_EQ(no_type.exit_code, 2);
  EXPECT_THAT(no_type.err, HasSubstr("--dtype int8: expected one of bfloat16|float16|float32|float64"));
  for (const char* op : {"log_softmax", "log-softmax"}) {
    EXPECT_EQ(Run({"--dtype", "float16", "--op", op, "--format", "text"}, "0 0").out, "-0.6933594 -0.6933594\n") << op;
  }
  EXPECT_THAT(Run({"--version"}).out, ::testing::MatchesRegex("softmax-client [0-9.]+ \\([0-9a-f]{12}\\)\n"));
  EXPECT_EQ(Run({"--timeout", "soon"}).exit_code, 2);
  for (const char* time : {"0.5h", "2m", "20000000us", "30000000000ns"}) {
    EXPECT_EQ(Run({"--timeout", time}, "1 1").out, "0.5 0.5\n") << time;
  }
  EXPECT_EQ(Run({"--axis", "5"}, "1 2").exit_code, 2);
  const ProgramResult refused = Run({}, "1 2 3 4 5 6 7 8 9 10 11 12 13\n");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("dimension 13 is not allowed here"));
  server_.behavior().refuse = true;
  EXPECT_EQ(Run({}, "1 2").exit_code, 1);
  const ProgramResult away = RunProgram(SOFTMAX_CLIENT, {"--address", "127.0.0.1:1", "--timeout", "300ms"}, "1 2");
  EXPECT_EQ(away.exit_code, 3);
  EXPECT_THAT(away.err, HasSubstr("127.0.0.1:1: no connection"));
}

// The time to connect and the call's were each as long as --timeout.
TEST_F(CliTest, TheTimeoutIsOfConnectingAndTheCallTogether) {
  const std::string address = "unix:" + ::testing::TempDir() + "cli_timeout.sock";
  const auto begin = std::chrono::steady_clock::now();
  Program program(SOFTMAX_CLIENT, {"--address", address, "--timeout", "3s"}, "1 2");
  EXPECT_TRUE(testing::Eventually([&] { return program.Err().find("waiting") != std::string::npos; }));
  testing::LetPass(std::chrono::milliseconds(1500));
  FakeServer late(address);
  late.behavior().delay_ms = 60000;
  const ProgramResult result = program.Wait();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(4500));  // 5 s and more
  EXPECT_EQ(late.requests(), 1);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("deadline exceeded: no answer within"));
}

TEST_F(CliTest, NoTimeIsNotForEver) {
  const ProgramResult result = Run({"--timeout", "0s"}, "1 2");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--timeout must be above 0"));
}

TEST_F(CliTest, APollStrategyThatGrpcDoesNotKnowIsRefused) {
  const ScopedEnvironment wrong({{"GRPC_POLL_STRATEGY", "epollex"}});
  const ProgramResult result = Run({}, "1 2");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "softmax-client: environment variable GRPC_POLL_STRATEGY: 'epollex' is not one of epoll1, poll, all\n");
}

TEST_F(CliTest, ShortFlagsAreTheUsualOnes) {
  const std::string out = ::testing::TempDir() + "cli_short.csv";
  EXPECT_EQ(Run({"-o", out}, "0 0").exit_code, 0);
  EXPECT_EQ(LoadArray(out, Format::kAuto)->array.shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(Run({"-V"}).out, Run({"--version"}).out);
  EXPECT_EQ(Run({"-v"}).out, Run({"--version"}).out);
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("-o,--output FILE=-"));
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("\nExamples:\n"));
}

TEST_F(CliTest, InfoPrintsWhatTheServerIs) {
  const ProgramResult result = Run({"--info"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("version    1.2.3 (test)\nbackend    fake\n"));
  EXPECT_THAT(result.out, HasSubstr("bfloat16"));
  EXPECT_THAT(result.out, HasSubstr("123456789012"));
}

TEST_F(CliTest, HealthIsAnExitCode) {
  const ProgramResult serving = Run({"--health"});
  EXPECT_EQ(serving.exit_code, 0) << serving.err;
  EXPECT_EQ(serving.out, "SERVING\n");
  EXPECT_EQ(Run({"--health", "--service", "softmax.v1.SoftmaxService"}).exit_code, 0);
  EXPECT_EQ(Run({"--health", "--service", "nobody"}).exit_code, 1);
  server_.behavior().serving = false;
  const ProgramResult not_serving = Run({"--health"});
  EXPECT_EQ(not_serving.exit_code, 1);
  EXPECT_EQ(not_serving.err, "NOT_SERVING\n");
  EXPECT_EQ(RunProgram(SOFTMAX_CLIENT, {"--address", "127.0.0.1:1", "--health"}).exit_code, 3);
}

TEST_F(CliTest, HealthWaitsForAServerThatComesLate) {
  const std::string address = "unix:" + ::testing::TempDir() + "cli_late.sock";
  Program program(SOFTMAX_CLIENT, {"--address", address, "--health", "--wait", "30s"});
  EXPECT_TRUE(testing::Eventually([&] { return program.Err().find("waiting for") != std::string::npos; }));
  FakeServer late(address);
  late.behavior().serving = false;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(testing::Eventually([&] { return late.health_checks() > 1; }));
  // 5 s, and 14 over TCP, where nobody looked at gRPC's sockets between two questions.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  late.behavior().serving = true;
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  server_.behavior().serving = false;
  EXPECT_EQ(Run({"--health", "--wait", "200ms"}).exit_code, 1);
}

}  // namespace
}  // namespace softmax::client
