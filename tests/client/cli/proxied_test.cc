#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/client/support/scoped_environment.h"
#include "tests/support/run_program.h"

// With a proxy in the environment where nobody listens.
namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProxiedTest : public ::testing::TestWithParam<const char*> {
 protected:
  FakeServer server_;
  const std::string port_ = server_.address().substr(server_.address().rfind(':') + 1);
  const ScopedEnvironment none_{{"grpc_proxy", nullptr},
                                {"https_proxy", nullptr},
                                {"http_proxy", nullptr},
                                {"no_grpc_proxy", nullptr},
                                {"no_proxy", nullptr}};
  const ScopedEnvironment proxy_{{GetParam(), "http://user:secret@127.0.0.1:1"}};
};

TEST_P(ProxiedTest, ThisMachineIsReachedStraight) {
  for (const std::string host : {"127.0.0.1:", "localhost:", "ipv4:127.0.0.1:", "dns:///localhost:"}) {
    const std::string target = host + port_;
    const ProgramResult result = RunProgram(SOFTMAX_CLIENT, {"--address", target, "--timeout", "2s"}, "1 1");
    EXPECT_EQ(result.out, "0.5 0.5\n") << target << ": " << result.err;
    EXPECT_EQ(RunProgram(SOFTMAX_CLIENT, {"--address", target, "--health"}).exit_code, 0) << target;
    EXPECT_EQ(RunProgram(SOFTMAX_CLIENT, {"--address", target, "--info", "--timeout", "2s"}).exit_code, 0) << target;
  }
  const std::string both = "127.0.0.1:" + port_ + ",ipv4:127.0.0.1:" + port_;
  EXPECT_EQ(RunProgram(SOFTMAX_CLIENT, {"--address", both, "--timeout", "2s"}, "1 1").out, "0.5 0.5\n");
}

TEST_P(ProxiedTest, HealthAsksTheServerItself) {
  const ProgramResult result = RunProgram(SOFTMAX_CLIENT, {"--address", "no-such-host.invalid:1", "--health"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("DNS resolution failed"));
}

TEST_P(ProxiedTest, ElsewhereTheProxyIsNamedWithoutItsPassword) {
  const auto client = *Client::Create({.target = "no-such-host.invalid:1", .retry = {.max_attempts = 1}});
  const Sample input = MakeSample(DataType::kFloat32, {1, 16}, 1);
  const std::string message(client->Softmax(input.view()).status().message());
  EXPECT_THAT(message, StartsWith("no-such-host.invalid:1 (by the proxy 127.0.0.1:1 of " + std::string(GetParam()) +
                                  "): nobody listens there"));
  EXPECT_THAT(message, Not(HasSubstr("secret")));
}

INSTANTIATE_TEST_SUITE_P(Variables, ProxiedTest, ::testing::Values("http_proxy", "https_proxy", "grpc_proxy"));

}  // namespace
}  // namespace softmax::client
