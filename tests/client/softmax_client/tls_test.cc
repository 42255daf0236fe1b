#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/support/run_program.h"
#include "tests/support/test_certificates.h"

namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::seconds kDeadline(20);

// The test server speaks TLS as localhost and 127.0.0.1.
class TlsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<grpc::ServerCredentials> ServerSide(const Identity& identity,
                                                             const Identity* client_authority) {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({identity.private_key, identity.certificate});
    if (client_authority != nullptr) {
      options.pem_root_certs = client_authority->certificate;
      options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    }
    return grpc::SslServerCredentials(options);
  }

  static absl::Status Call(const ClientOptions& options, const Sample& input = Small()) {
    ClientOptions bounded = options;
    bounded.deadline = kDeadline;
    const auto client = Client::Create(bounded);
    if (!client.ok()) return client.status();
    const auto start = std::chrono::steady_clock::now();
    const auto answer = (*client)->Softmax(input.view());
    EXPECT_LT(std::chrono::steady_clock::now() - start, kDeadline);
    if (answer.ok()) {
      EXPECT_EQ(Wrong(input, *answer), "");
    }
    return answer.status();
  }

  static const Sample& Small() {
    static const Sample sample = MakeSample(DataType::kFloat32, {1, 16}, 1);
    return sample;
  }

  const Identity authority_ = MakeAuthority("servers");
  const Identity localhost_ = IssueFor("localhost", authority_, "127.0.0.1");
};

TEST_F(TlsTest, ATrustedServerAnswers) {
  FakeServer server("127.0.0.1:0", ServerSide(localhost_, nullptr));
  const ClientOptions options{.target = server.address(), .tls = TlsOptions{authority_.certificate}};
  EXPECT_EQ(Call(options), absl::OkStatus());
  EXPECT_EQ(Call(options, MakeSample(DataType::kFloat32, {2, 300000}, 1)), absl::OkStatus());
}

TEST_F(TlsTest, AnUntrustedCertificateIsNamed) {
  FakeServer server("127.0.0.1:0", ServerSide(localhost_, nullptr));
  // Of another name, and of the same name with another key.
  for (const char* name : {"others", "servers"}) {
    const Identity other = MakeAuthority(name);
    const absl::Status status = Call({.target = server.address(), .tls = TlsOptions{other.certificate}});
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                StartsWith(server.address() + ": the server's certificate is not trusted"));
  }
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(TlsTest, TheNameMustFitAndCanBeOverridden) {
  FakeServer server("127.0.0.1:0", ServerSide(IssueFor("softmax.test", authority_), nullptr));
  const TlsOptions tls{authority_.certificate};
  const absl::Status status = Call({.target = server.address(), .tls = tls});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the server's certificate is for another name"));
  EXPECT_EQ(Call({.target = server.address(), .tls = tls, .authority = "softmax.test"}), absl::OkStatus());
  EXPECT_EQ(server.authority(), "softmax.test");
}

TEST_F(TlsTest, AClientShowsWhoItIsWhereTheServerAsks) {
  const Identity clients = MakeAuthority("clients");
  FakeServer server("127.0.0.1:0", ServerSide(localhost_, &clients));
  const absl::Status anonymous = Call({.target = server.address(), .tls = TlsOptions{authority_.certificate}});
  EXPECT_EQ(anonymous.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(anonymous.message()),
              StartsWith(server.address() + ": cut off at once; the server may want a certificate of this client"));
  EXPECT_EQ(server.requests(), 0);
  const Identity stranger = IssueFor("a stranger", authority_);
  const absl::Status unknown =
      Call({.target = server.address(),
            .tls = TlsOptions{authority_.certificate, stranger.certificate, stranger.private_key}});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unknown.message()),
              StartsWith(server.address() + ": cut off at once; the server may not take this client's certificate"));
  const Identity me = IssueFor("a client", clients);
  EXPECT_EQ(
      Call({.target = server.address(), .tls = TlsOptions{authority_.certificate, me.certificate, me.private_key}}),
      absl::OkStatus());
}

TEST_F(TlsTest, PlainTextAndTlsDoNotMixAndSaySo) {
  FakeServer secure("127.0.0.1:0", ServerSide(localhost_, nullptr));
  const absl::Status plain = Call({.target = secure.address()});
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnavailable) << plain;
  EXPECT_THAT(std::string(plain.message()), HasSubstr("cut off at once; the server may speak TLS there"));
  FakeServer open;
  const absl::Status tls = Call({.target = open.address(), .tls = TlsOptions{authority_.certificate}});
  EXPECT_EQ(tls.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(tls.message()), HasSubstr("TLS handshake failed: what listens there speaks plain text"));
}

TEST_F(TlsTest, TheProgramSaysSoWhileItWaits) {
  FakeServer secure("127.0.0.1:0", ServerSide(localhost_, nullptr));
  FakeServer open;
  const struct {
    std::vector<std::string> flags;
    std::string says;
  } cases[] = {{{"--address", secure.address()}, "cut off at once; the server may speak TLS there"},
               {{"--address", open.address(), "--tls"}, "what listens there speaks plain text"}};
  for (const auto& one : cases) {
    for (const std::vector<std::string>& way :
         {std::vector<std::string>{"--timeout"}, {"--info", "--timeout"}, {"--health", "--wait"}}) {
      std::vector<std::string> arguments = one.flags;
      arguments.insert(arguments.end(), way.begin(), way.end());
      // While it waits, and at the end: a busy machine may need more time than a second for two attempts.
      const auto says_twice = [&](const std::string& text) {
        const std::size_t first = text.find(one.says);
        return first != std::string::npos && text.find(one.says, first + 1) != std::string::npos;
      };
      ProgramResult result;
      for (const char* time : {"1s", "5s", "25s"}) {
        std::vector<std::string> with_time = arguments;
        with_time.emplace_back(time);
        result = RunProgram(SOFTMAX_CLIENT, with_time, "1 2 3");
        EXPECT_EQ(result.exit_code, 3) << way.front();
        if (says_twice(result.err)) break;
      }
      EXPECT_TRUE(says_twice(result.err)) << way.front() << ": " << result.err;
    }
  }
}

TEST_F(TlsTest, ATokenGoesWithEveryAttemptAndMayChange) {
  FakeServer server("127.0.0.1:0", ServerSide(localhost_, nullptr));
  std::atomic<int> made = 0;
  const auto client = *Client::Create({.target = server.address(),
                                       .deadline = kDeadline,
                                       .tls = TlsOptions{authority_.certificate},
                                       .bearer_token = [&] { return "token" + std::to_string(++made); }});
  EXPECT_EQ(client->Softmax(Small().view()).status(), absl::OkStatus());
  EXPECT_EQ(server.authorization(), "Bearer token1");
  server.behavior().fail_next = 2;
  EXPECT_EQ(client->SoftmaxFuture(Small().view()).get().status(), absl::OkStatus());
  EXPECT_EQ(server.authorization(), "Bearer token4");
  const BatchItem item{Small().view()};
  EXPECT_TRUE(client->SoftmaxBatch({&item, 1})[0].ok());
  EXPECT_EQ(server.authorization(), "Bearer token5");
}

TEST_F(TlsTest, TheCommandLineClientHasTheSame) {
  const Identity clients = MakeAuthority("clients");
  const Identity me = IssueFor("a client", clients);
  FakeServer server("127.0.0.1:0", ServerSide(localhost_, &clients));
  const std::string folder = ::testing::TempDir() + "tls_test_";
  const auto save = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + name) << text;
    return folder + name;
  };
  const std::string ca = save("ca.pem", authority_.certificate);
  std::vector<std::string> arguments = {"--address", server.address(), "--ca", ca, "--timeout", "2s"};
  const ProgramResult anonymous = RunProgram(SOFTMAX_CLIENT, arguments, "1 2 3");
  EXPECT_EQ(anonymous.exit_code, 3);
  EXPECT_THAT(anonymous.err, HasSubstr(server.address() + ": no connection within 1500 ms; at last: "));
  arguments.insert(arguments.end(), {"--cert", save("me.pem", me.certificate), "--key", save("me.key", me.private_key),
                                     "--token-file", save("token", "secret\n")});
  const ProgramResult answer = RunProgram(SOFTMAX_CLIENT, arguments, "1 2 3");
  EXPECT_EQ(answer.out, "0.09003057 0.24472848 0.66524094\n") << answer.err;
  EXPECT_EQ(server.authorization(), "Bearer secret");
  arguments.push_back("--health");
  EXPECT_EQ(RunProgram(SOFTMAX_CLIENT, arguments).out, "SERVING\n");
  const ProgramResult open =
      RunProgram(SOFTMAX_CLIENT, {"--address", "127.0.0.1:1", "--token-file", folder + "token"}, "1");
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(open.err, HasSubstr("bearer_token: needs tls"));
}

}  // namespace
}  // namespace softmax::client
