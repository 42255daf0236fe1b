#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "server/config/flags.h"

namespace softmax::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// No variable of the caller's environment may reach a test, nor one of a test the next.
class ConfigTest : public testing::Test {
 protected:
  ~ConfigTest() override {
    for (const std::string& name : variables_) {
      unsetenv(name.c_str());
    }
  }

  void SetVariable(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  static std::string WriteFile(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string path = testing::TempDir() + "config_test_" + test->name() + ".toml";
    std::ofstream(path) << text;
    return path;
  }

  static ParseResult Parse(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"softmax-server"};
    for (const std::string& argument : arguments) {
      argv.push_back(argument.c_str());
    }
    return ParseConfig(static_cast<int>(argv.size()), argv.data());
  }

  static ParseResult ParseFile(const std::string& text) { return Parse({"--config", WriteFile(text)}); }

  static void ExpectRefused(const ParseResult& result, const std::vector<std::string>& words) {
    EXPECT_FALSE(result.run);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.error, HasSubstr("--help"));
    for (const std::string& word : words) {
      EXPECT_THAT(result.error, HasSubstr(word));
    }
  }

 private:
  std::vector<std::string> variables_;
};

TEST_F(ConfigTest, DefaultsRun) {
  const ParseResult result = Parse({});
  EXPECT_TRUE(result.run) << result.error;
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.config.address, ElementsAre("0.0.0.0:50051"));
  EXPECT_EQ(result.config.metrics_address, "0.0.0.0:9400");
  EXPECT_EQ(result.config.max_batch_bytes, 1u << 20);
  EXPECT_EQ(result.config.arena_bytes, 512u << 20);
  EXPECT_TRUE(result.config.devices.empty());
}

TEST_F(ConfigTest, ReadsEveryKindOfValue) {
  const ParseResult result =
      Parse({"--address", "127.0.0.1:1", "--address=[::1]:2", "--metrics-address", "none", "--devices=1,0",
             "--backend=cuda", "--threads", "4", "--max-batch-bytes=2mib", "--max-request-bytes", "1MB",
             "--max-queue-delay=200us", "--drain-timeout", "1.5s", "--keepalive-time=2m", "--reflection=false",
             "--log-format=json", "--unsafe-testing"});
  ASSERT_TRUE(result.run) << result.error;
  const Config& config = result.config;
  EXPECT_THAT(config.address, ElementsAre("127.0.0.1:1", "[::1]:2"));
  EXPECT_EQ(config.metrics_address, "none");
  EXPECT_THAT(config.devices, ElementsAre(1, 0));
  EXPECT_EQ(config.backend, Backend::kCuda);
  EXPECT_EQ(config.threads, 4u);
  EXPECT_EQ(config.max_batch_bytes, 2u << 20);
  EXPECT_EQ(config.max_request_bytes, 1'000'000u);
  EXPECT_EQ(config.max_queue_delay, microseconds(200));
  EXPECT_EQ(config.drain_timeout, milliseconds(1500));
  EXPECT_EQ(config.keepalive_time, seconds(120));
  EXPECT_FALSE(config.reflection);
  EXPECT_EQ(config.log_format, "json");
  EXPECT_TRUE(config.unsafe_testing);
}

TEST_F(ConfigTest, HelpShowsEveryGroupAndWhatToDoInstead) {
  const ParseResult result = Parse({"--help"});
  EXPECT_FALSE(result.run);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.error, "");
  for (const char* group : {"\nListening:", "\nExecution:", "\nBatching:", "\nLimits:", "\nMemory:",
                            "\nDrain and health:", "\nMetrics:", "\nLogging:", "\nTesting:"}) {
    EXPECT_THAT(result.output, HasSubstr(group));
  }
  for (const char* flag : {"--config", "--print-config", "-V,-v,--version"}) {
    EXPECT_THAT(result.output, HasSubstr(std::string("  ") + flag));
  }
}

TEST_F(ConfigTest, HelpWinsOverABrokenEnvironmentAndFile) {
  SetVariable("SOFTMAX_THREADS", "many");
  const ParseResult result = Parse({"--help", "--config", "/nonexistent"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("--threads"));
}

TEST_F(ConfigTest, VersionIsPrinted) {
  const ParseResult result = Parse({"--version"});
  EXPECT_FALSE(result.run);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, testing::StartsWith(std::string("softmax-server ") + Version()));
  EXPECT_THAT(result.output, testing::EndsWith("\n"));
}

TEST_F(ConfigTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string file = WriteFile(
      "max-batch-requests = 11\nmax-queued-requests = 12\nmax-connections = 13\n"
      "address = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n");
  SetVariable("SOFTMAX_MAX_BATCH_REQUESTS", "21");
  SetVariable("SOFTMAX_MAX_QUEUED_REQUESTS", "22");
  SetVariable("SOFTMAX_ADDRESS", "127.0.0.1:3,127.0.0.1:4");
  const ParseResult result = Parse({"--max-batch-requests=31", "--config=" + file});
  ASSERT_TRUE(result.run) << result.error;
  EXPECT_EQ(result.config.max_batch_requests, 31u);
  EXPECT_EQ(result.config.max_queued_requests, 22u);
  EXPECT_EQ(result.config.max_connections, 13u);
  EXPECT_EQ(result.config.max_rank, 8u);
  EXPECT_THAT(result.config.address, ElementsAre("127.0.0.1:3", "127.0.0.1:4"));
  const ParseResult with_flag = Parse({"--address=127.0.0.1:5", "--address=127.0.0.1:6", "--config", file});
  EXPECT_THAT(with_flag.config.address, ElementsAre("127.0.0.1:5", "127.0.0.1:6"));
}

TEST_F(ConfigTest, TheConfigFileMayBeNamedByAVariable) {
  SetVariable("SOFTMAX_CONFIG", WriteFile("threads = 3\n"));
  EXPECT_EQ(Parse({}).config.threads, 3u);
  const std::string other = testing::TempDir() + "config_test_other.toml";
  std::ofstream(other) << "threads = 5\n";
  EXPECT_EQ(Parse({"--config", other}).config.threads, 5u);
}

TEST_F(ConfigTest, AConfigThatIsNoFileIsRefusedHoweverItIsNamed) {
  const std::string pipe_path = testing::TempDir() + "config_test_pipe";
  unlink(pipe_path.c_str());
  ASSERT_EQ(mkfifo(pipe_path.c_str(), 0600), 0);
  for (const std::string& path : {testing::TempDir(), std::string("/dev/zero"), std::string("/dev/null"), pipe_path}) {
    SCOPED_TRACE(path);
    ExpectRefused(Parse({"--config", path}), {"config file " + path, "cannot be read"});
    ExpectRefused(Parse({"--config=" + path, "--print-config"}), {"config file " + path, "cannot be read"});
    SetVariable("SOFTMAX_CONFIG", path);
    ExpectRefused(Parse({}), {"config file " + path, "cannot be read"});
    unsetenv("SOFTMAX_CONFIG");
  }
  unlink(pipe_path.c_str());
  ExpectRefused(Parse({"--config", ""}), {"--config", "must not be empty"});
  ExpectRefused(Parse({"--config=", WriteFile("threads = 3\n")}), {"--config", "must not be empty"});
}

TEST_F(ConfigTest, AnEndlessConfigFileIsRefused) {
  ExpectRefused(ParseFile("threads = 3\n" + std::string(1 << 20, '#')), {"1048576 bytes"});
}

TEST_F(ConfigTest, AnEmptyVariableIsNone) {
  for (const char* name : {"SOFTMAX_CONFIG", "SOFTMAX_THREADS", "SOFTMAX_ADDRESS", "SOFTMAX_TLS_CERT",
                           "SOFTMAX_REFLECTION", "SOFTMAX_DEVICES", "GRPC_POLL_STRATEGY"}) {
    SetVariable(name, "");
  }
  const ParseResult result = Parse({});
  EXPECT_TRUE(result.run) << result.error;
  EXPECT_EQ(PrintConfig(result.config), PrintConfig(Config()));
}

TEST_F(ConfigTest, AnEmptyElementOfAListIsRefused) {
  for (const char* list : {",127.0.0.1:1", "127.0.0.1:1,,127.0.0.1:2", "127.0.0.1:1,", ","}) {
    SetVariable("SOFTMAX_ADDRESS", list);
    ExpectRefused(Parse({}), {"SOFTMAX_ADDRESS", "empty"});
  }
  unsetenv("SOFTMAX_ADDRESS");
  ExpectRefused(ParseFile("address = [\"\", \"127.0.0.1:1\"]\n"), {"key address", "empty"});
  ExpectRefused(Parse({"--address=", "127.0.0.1:1"}), {"--address", "empty"});
}

TEST_F(ConfigTest, APortAloneIsEveryAddress) {
  const ParseResult result = Parse({"--address=:50051", "--metrics-address=:9400", "--health-address=:8080"});
  ASSERT_TRUE(result.run) << result.error;
  const auto everywhere = [](const char* port) {
    return testing::AnyOf(std::string("[::]:") + port, std::string("0.0.0.0:") + port);
  };
  EXPECT_THAT(result.config.address, ElementsAre(everywhere("50051")));
  EXPECT_THAT(result.config.metrics_address, everywhere("9400"));
  EXPECT_THAT(result.config.health_address, everywhere("8080"));
  ExpectRefused(Parse({"--address=:x"}), {"0 to 65535"});
}

TEST_F(ConfigTest, SwitchesTakeWhatOtherProgramsWrite) {
  for (const char* yes : {"true", "True", "TRUE", "1", "yes", "on"}) {
    SetVariable("SOFTMAX_REFLECTION", yes);
    EXPECT_TRUE(Parse({}).config.reflection) << yes;
  }
  for (const char* no : {"false", "False", "0", "no", "off"}) {
    SetVariable("SOFTMAX_REFLECTION", no);
    const ParseResult result = Parse({});
    EXPECT_TRUE(result.run) << result.error;
    EXPECT_FALSE(result.config.reflection) << no;
  }
  EXPECT_FALSE(ParseFile("reflection = False\n").config.reflection);
  EXPECT_FALSE(Parse({"--reflection=0"}).config.reflection);
  SetVariable("SOFTMAX_REFLECTION", "2");
  ExpectRefused(Parse({}), {"SOFTMAX_REFLECTION", "'2'"});
}

TEST_F(ConfigTest, APollStrategyThatGrpcWouldAbortForIsRefused) {
  for (const char* known : {"poll", "epoll1", "epoll1,poll", "all"}) {
    SetVariable("GRPC_POLL_STRATEGY", known);
    EXPECT_TRUE(Parse({}).run) << known;
  }
  for (const char* unknown : {"epoll", "epollex", "poll,bogus", "POLL", "none", "1"}) {
    SetVariable("GRPC_POLL_STRATEGY", unknown);
    ExpectRefused(Parse({}), {"GRPC_POLL_STRATEGY", "epoll1, poll"});
  }
}

TEST_F(ConfigTest, FileTakesCommentsUnderscoresAndLists) {
  const ParseResult result = ParseFile(
      "# how we run\n\nmax_batch_bytes = \"2MiB\"  # larger\ndevices = [0, 2]\n"
      "reflection = false\nlog-level = 'debug'\n");
  ASSERT_TRUE(result.run) << result.error;
  EXPECT_EQ(result.config.max_batch_bytes, 2u << 20);
  EXPECT_THAT(result.config.devices, ElementsAre(0, 2));
  EXPECT_FALSE(result.config.reflection);
  EXPECT_EQ(result.config.log_level, "debug");
}

TEST_F(ConfigTest, ATypoInAFlagIsNamedAndTheRightOneSuggested) {
  ExpectRefused(Parse({"--max-bach-bytes=1MiB"}), {"unknown flag --max-bach-bytes", "--max-batch-bytes?"});
  ExpectRefused(Parse({"--zzz"}), {"unknown flag --zzz"});
  EXPECT_THAT(Parse({"--zzz"}).error, Not(HasSubstr("did you mean")));
  ExpectRefused(Parse({"serve"}), {"serve"});
}

TEST_F(ConfigTest, AWrongValueIsNamedWithItsFlag) {
  const std::vector<std::vector<std::string>> cases = {
      {"--max-batch-bytes=3x", "--max-batch-bytes", "'3x'"},
      {"--max-batch-bytes=", "--max-batch-bytes"},
      {"--max-batch-bytes=-1", "--max-batch-bytes", "'-1'"},
      {"--max-batch-bytes=1.5MiB", "--max-batch-bytes", "'1.5MiB'"},
      {"--max-batch-bytes=MiB", "--max-batch-bytes", "'MiB'"},
      {"--max-batch-bytes=99999999999EiB", "--max-batch-bytes"},
      {"--max-batch-bytes=99999999999999999999", "--max-batch-bytes"},
      {"--max-queue-delay=5", "--max-queue-delay", "'5'", "us"},
      {"--max-queue-delay=5 parsecs", "--max-queue-delay"},
      {"--max-queue-delay=-5us", "--max-queue-delay"},
      {"--max-queue-delay=nan", "--max-queue-delay"},
      {"--max-queue-delay=1e300s", "--max-queue-delay"},
      {"--drain-timeout=101h1", "--drain-timeout"},
      {"--drain-timeout=9999999h", "--drain-timeout", "100 days"},
      {"--threads=two", "--threads", "'two'", "0 to 256"},
      {"--threads=257", "--threads", "'257'"},
      {"--max-rank=9", "--max-rank", "'9'", "1 to 8"},
      {"--max-rank=0", "--max-rank", "'0'"},
      {"--devices=0,x", "--devices", "'0,x'"},
      {"--devices=0,0", "--devices", "twice"},
      {"--devices=", "--devices"},
      {"--backend=gpu", "--backend", "'gpu'", "auto, cuda, cpu, null"},
      {"--reflection=maybe", "--reflection", "'maybe'"},
      {"--log-level=loud", "--log-level", "'loud'", "warning"},
      {"--poller=epoll", "--poller", "'epoll'", "epoll1"},
      {"--address=50051", "--address=50051", "host:port"},
      {"--address=", "--address"},
      {"--config=/nonexistent/file", "/nonexistent/file", "cannot be read"},
  };
  for (const auto& words : cases) {
    SCOPED_TRACE(words.front());
    ExpectRefused(Parse({words.front()}), {words.begin() + 1, words.end()});
  }
  ExpectRefused(Parse({"--max-rows=3000000000"}), {"--max-rows", "2147483648"});
  ExpectRefused(Parse({"--threads", "1", "--threads", "2"}), {"--threads"});
  ExpectRefused(Parse({"--threads"}), {"--threads"});
}

TEST_F(ConfigTest, AWrongValueInTheEnvironmentIsNamedWithItsVariable) {
  SetVariable("SOFTMAX_MAX_BATCH_BYTES", "lots");
  ExpectRefused(Parse({}), {"SOFTMAX_MAX_BATCH_BYTES", "'lots'"});
}

TEST_F(ConfigTest, AnUnknownVariableIsWarnedAboutUnlessItIsOfAKubernetesService) {
  SetVariable("SOFTMAX_MAX_BACH_BYTES", "1MiB");
  SetVariable("SOFTMAX_SERVER_PORT_50051_TCP", "tcp://10.0.0.1:50051");
  SetVariable("SOFTMAX_SERVER_SERVICE_HOST", "10.0.0.1");
  const ParseResult result = Parse({});
  EXPECT_TRUE(result.run) << result.error;
  // The test's own environment may hold others.
  EXPECT_THAT(result.warnings, Contains(HasSubstr("SOFTMAX_MAX_BACH_BYTES")));
  EXPECT_THAT(result.warnings, Not(Contains(HasSubstr("SOFTMAX_SERVER_"))));
}

TEST_F(ConfigTest, AMistakeInTheFileIsNamedWithFileAndKey) {
  const std::vector<std::vector<std::string>> cases = {
      {"max-bach-bytes = 1\n", "max-bach-bytes", "did you mean max-batch-bytes?"},
      {"threads = many\n", "key threads", "'many'"},
      {"threads = 1\nmax-rank = 8\nthreads = 2\n", "threads", "twice"},
      {"max-rank = 8\nmax_rank = 7\n", "max_rank", "twice"},
      {"log_level = \"info\"\nlog-level = \"off\"\n", "log-level", "twice"},
      {"threads = [1, 2]\n", "threads", "one value"},
      {"[server]\nthreads = 1\n", "server", "sections"},
      {"config = \"other.toml\"\n", "unknown key config"},
      {"help = true\n", "unknown key help"},
      {"this is no toml\n", "this is no toml"},
      {"address = \"127.0.0.1:50\n", "key address", "is a quote not closed?"},
      {"log-level = \"in\x01fo\"\n", "key log-level", "control character"},
  };
  for (const auto& words : cases) {
    SCOPED_TRACE(words.front());
    const ParseResult result = ParseFile(words.front());
    ExpectRefused(result, {words.begin() + 1, words.end()});
    EXPECT_THAT(result.error, HasSubstr("config file "));
  }
}

// 5.36870912e+08 in a values file of Helm is what it makes of 536870912.
TEST_F(ConfigTest, NumbersAsGoPrintsThemAreTakenEverywhere) {
  SetVariable("SOFTMAX_MEMORY_QUOTA", "5.36870912e+08");
  const std::string file = WriteFile("arena-bytes = 1.34217728e+08\nmax-queued-requests = 2e+06\n");
  const ParseResult result = Parse({"--config", file, "--max-queued-bytes=1e9"});
  EXPECT_TRUE(result.run) << result.error;
  EXPECT_EQ(result.config.memory_quota, 512u << 20);
  EXPECT_EQ(result.config.arena_bytes, 128u << 20);
  EXPECT_EQ(result.config.max_queued_requests, 2'000'000u);
  EXPECT_EQ(result.config.max_queued_bytes, 1'000'000'000u);
  ExpectRefused(Parse({"--max-queued-requests=1.5e0"}), {"--max-queued-requests", "1.5e0", "not a whole number"});
}

TEST_F(ConfigTest, AListIsBoundedWhereverItCameFrom) {
  const std::vector<std::string> words = {"address: lists at most 64, and is given 65"};
  std::string list = "\":1\"";
  for (int i = 1; i < 65; ++i) list += ", \":1\"";
  ExpectRefused(ParseFile("address = [" + list + "]"), words);
  ExpectRefused(Parse(std::vector<std::string>(65, "--address=:1")), words);
  std::string commas = ":1";
  for (int i = 1; i < 60'000; ++i) commas += ",:" + std::to_string(i % 65536);
  SetVariable("SOFTMAX_ADDRESS", commas);
  const auto begin = std::chrono::steady_clock::now();
  ExpectRefused(Parse({}), {"SOFTMAX_ADDRESS: lists at most 64, and is given 60000"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(1));
}

// A large value is no large text on the terminal, and escape sequences do nothing there.
TEST_F(ConfigTest, WhatAnErrorRepeatsIsBoundedAndSafe) {
  const std::string value = "\x1b[2J" + std::string(100'000, 'x');
  for (const FieldName& field : ConfigFieldNames()) {
    if (field.name == "unsafe-testing") continue;  // takes no value
    const ParseResult result = Parse({"--" + field.name + "=" + value});
    EXPECT_FALSE(result.run) << field.name;
    EXPECT_LT(result.error.size(), 2000u) << field.name;
    EXPECT_THAT(result.error, AllOf(HasSubstr(field.name), Not(HasSubstr("\x1b")))) << field.name;
  }
  EXPECT_THAT(Parse({"--threads=" + value}).error, HasSubstr("is not a whole number from"));
  for (const ParseResult& result : {Parse({value}), Parse({"--" + value}), ParseFile(value + " = 1")}) {
    EXPECT_LT(result.error.size(), 2000u);
    EXPECT_THAT(result.error, Not(HasSubstr("\x1b")));
  }
}

TEST_F(ConfigTest, TestDoorsOpenFromTheCommandLineOnly) {
  const std::vector<std::string> local = {"--address=127.0.0.1:0", "--metrics-address=none", "--backend=null"};
  SetVariable("SOFTMAX_UNSAFE_TESTING", "true");
  ExpectRefused(Parse(local), {"SOFTMAX_UNSAFE_TESTING", "command line only"});
  unsetenv("SOFTMAX_UNSAFE_TESTING");
  ExpectRefused(ParseFile("unsafe-testing = true\n"), {"unsafe-testing", "command line only"});
  ExpectRefused(Parse(local), {"--backend=null", "--unsafe-testing"});
  std::vector<std::string> open = local;
  open.push_back("--unsafe-testing");
  open.push_back("--fault=devices:2");
  EXPECT_EQ(Parse(open).config.fault, "devices:2") << Parse(open).error;
  SetVariable("SOFTMAX_FAULT", "devices:2");
  ExpectRefused(Parse(open), {"SOFTMAX_FAULT", "command line only"});
}

TEST_F(ConfigTest, AContradictionIsAUsageErrorWhereverItsValuesCameFrom) {
  SetVariable("SOFTMAX_ARENA_BYTES", "64MiB");
  ExpectRefused(Parse({}), {"--max-request-bytes=64MiB", "--arena-bytes=64MiB"});
}

TEST_F(ConfigTest, ThePrintedConfigReadsBackAsTheSame) {
  const std::vector<std::string> arguments = {
      "--address=127.0.0.1:1",    "--address=[::1]:2",  "--devices=2,0", "--max-batch-bytes=1234567",
      "--max-queue-delay=1500ns", "--reflection=false", "--threads=3",   "--log-format=json"};
  std::vector<std::string> print = arguments;
  print.push_back("--print-config");
  const ParseResult printed = Parse(print);
  EXPECT_FALSE(printed.run);
  EXPECT_EQ(printed.exit_code, 0) << printed.error;
  EXPECT_THAT(printed.output, AllOf(HasSubstr("max-batch-bytes = \"1234567\""), HasSubstr("devices = [2,0]"),
                                    HasSubstr("max-queue-delay = \"1500ns\""), Not(HasSubstr("unsafe"))));
  const ParseResult read = ParseFile(printed.output);
  ASSERT_TRUE(read.run) << read.error;
  const std::string chosen = "\n# 0 chooses; here: " + DescribeThreads(read.config, CoresOfThisProcess()) + "\n";
  EXPECT_EQ(PrintConfig(read.config) + chosen, printed.output);
  EXPECT_NE(PrintConfig(read.config), PrintConfig(Config()));
}

}  // namespace
}  // namespace softmax::server
