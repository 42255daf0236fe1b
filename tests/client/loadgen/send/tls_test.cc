// The load generator over TLS, with client certificates and tokens.
#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/support/fake_server.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace softmax::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class LoadgenTlsTest : public ::testing::Test {
 protected:
  // Asks for a certificate of `clients_` where that is said.
  std::shared_ptr<grpc::ServerCredentials> ServerSide(const Identity& identity, bool asks) const {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({identity.private_key, identity.certificate});
    if (asks) {
      options.pem_root_certs = clients_.certificate;
      options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    }
    return grpc::SslServerCredentials(options);
  }

  static ProgramResult Run(std::vector<std::string> more) {
    more.insert(more.end(), {"--connections=2", "--duration=0.3", "--warmup=0.1", "--shape=4x32", "--verify=1"});
    return RunProgram(SOFTMAX_LOADGEN, more);
  }

  const Identity authority_ = MakeAuthority("servers");
  const Identity clients_ = MakeAuthority("clients");
  const Identity localhost_ = IssueFor("localhost", authority_, "127.0.0.1");
  const testing::TempFolder folder_;
  const std::string ca_ = folder_.Write("ca.pem", authority_.certificate);
};

TEST_F(LoadgenTlsTest, EveryLoopAndMethodShowsItsCertificateAndToken) {
  const Identity me = IssueFor("load", clients_);
  const std::string cert = folder_.Write("cert.pem", me.certificate);
  const std::string key = folder_.Write("key.pem", me.private_key);
  const std::string token = folder_.Write("token", "secret\n");
  const std::vector<std::vector<std::string>> modes = {
      {"--processes=2"}, {"--stream"}, {"--rate=200"}, {"--rate=200", "--stream"}, {"--attempts=3"}};
  for (const std::vector<std::string>& mode : modes) {
    FakeServer server("127.0.0.1:0", ServerSide(localhost_, true));
    std::vector<std::string> flags = {"--address", server.address(), "--ca", ca_,      "--cert", cert, "--key",
                                      key,         "--token-file",   token,  "--json", "-"};
    flags.insert(flags.end(), mode.begin(), mode.end());
    const ProgramResult result = Run(flags);
    ASSERT_EQ(result.exit_code, 0) << mode.front() << result.err;
    const nlohmann::json report = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_EQ(report["settings"]["tls"], "mutual TLS");
    EXPECT_EQ(report["settings"]["token"], "with every call");
    EXPECT_EQ(report["runs"][0]["errors"], nlohmann::json::object());
    EXPECT_GT(report["runs"][0]["verified"], 5);
    EXPECT_EQ(server.authorization(), "Bearer secret") << mode.front();
    EXPECT_THAT(result.err, HasSubstr(server.address() + " over mutual TLS  "));
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("secret")));
  }
}

TEST_F(LoadgenTlsTest, SeveralServersWithHealthChecksAreLoadedOverTls) {
  FakeServer one("127.0.0.1:0", ServerSide(localhost_, false));
  FakeServer other("127.0.0.1:0", ServerSide(localhost_, false));
  const ProgramResult result = Run({"--address", one.address() + "," + other.address(), "--ca", ca_, "--csv", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(one.requests(), 5);
  EXPECT_GT(other.requests(), 5);
  EXPECT_THAT(result.out, HasSubstr(",tls\n"));
  EXPECT_THAT(result.out, EndsWith(",TLS\n"));
}

TEST_F(LoadgenTlsTest, AServerThatIsNotTrustedGetsNoRequestAndWhyIsSaid) {
  FakeServer server("127.0.0.1:0", ServerSide(localhost_, true));
  const std::string other = folder_.Write("other.pem", clients_.certificate);
  const std::vector<std::string> bounded = {"--address", server.address(), "--connect-timeout=0.5"};
  const auto refused = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), bounded.begin(), bounded.end());
    const ProgramResult result = Run(flags);
    EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("no connection to " + server.address()));
    return result.err;
  };
  EXPECT_THAT(refused({"--ca", other}), HasSubstr("the server's certificate is not trusted"));
  refused({"--tls"});      // the machine's list does not have it
  refused({"--ca", ca_});  // and it wants to know who asks
  refused({});
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(LoadgenTlsTest, TheNameMustFitUnlessAnotherIsAskedFor) {
  FakeServer server("127.0.0.1:0", ServerSide(IssueFor("softmax.test", authority_), false));
  const std::vector<std::string> flags = {"--address", server.address(), "--ca", ca_, "--connect-timeout=0.5"};
  EXPECT_EQ(Run(flags).exit_code, 3);
  std::vector<std::string> named = flags;
  named.push_back("--authority=softmax.test");
  const ProgramResult result = Run(named);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(server.authority(), "softmax.test");
}

TEST_F(LoadgenTlsTest, OverAUnixSocketATokenNeedsNoTls) {
  FakeServer server("unix:" + folder_.path("socket"));
  const std::string token = folder_.Write("token", "secret");
  const ProgramResult result = Run({"--address", server.address(), "--token-file", token, "--json", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(server.authorization(), "Bearer secret");
  EXPECT_EQ(nlohmann::json::parse(result.out, nullptr, false)["settings"]["tls"], "off");
}

TEST_F(LoadgenTlsTest, WhatCannotBeUsedIsOneLineWithFlagAndValue) {
  const std::string gone = folder_.path("gone");
  const std::string rubbish = folder_.Write("rubbish", "rubbish");
  const std::string key = folder_.Write("key", localhost_.private_key);
  const std::string token = folder_.Write("token", "secret");
  const std::string empty = folder_.Write("empty", "\n");
  const std::string two = folder_.Write("two", "one\ntwo\n");
  const std::string windows = folder_.Write("windows", "secret\r\n");
  const struct {
    std::vector<std::string> flags;
    std::string says;
  } cases[] = {
      {{"--ca", gone}, "--ca " + gone + ": No such file or directory"},
      {{"--ca", folder_.path("")}, "--ca " + folder_.path("") + ": is a folder, not a file"},
      {{"--ca", rubbish}, "--ca " + rubbish + ": is not PEM of a CERTIFICATE"},
      {{"--ca", key}, "--ca " + key + ": is not PEM of a CERTIFICATE"},
      {{"--cert", ca_}, "--cert " + ca_ + ": needs --key too"},
      {{"--key", key}, "--key " + key + ": needs --cert too"},
      {{"--cert", ca_, "--key", ca_}, "--key " + ca_ + ": is not PEM of a PRIVATE KEY"},
      {{"--tls", "--token-file", gone}, "--token-file " + gone + ": No such file"},
      {{"--tls", "--token-file", empty}, "--token-file " + empty + ": is empty"},
      {{"--tls", "--token-file", two}, "--token-file " + two + ": character 4 is a line feed"},
      {{"--tls", "--token-file", windows}, "--token-file " + windows + ": character 7 is a carriage return"},
      {{"--token-file", token}, "--token-file " + token + ": needs --tls (or --ca) for --address 127.0.0.1:1"},
      {{"--tls", "--token-file", ""}, "--token-file: names no file"},
      {{"--authority", "a b"}, "--authority 'a b': must be of visible ASCII characters"},
  };
  for (const auto& [flags, says] : cases) {
    std::vector<std::string> all = {"--address", "127.0.0.1:1"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ProgramResult result = Run(all);
    EXPECT_EQ(result.exit_code, 2) << says;
    EXPECT_THAT(result.err, HasSubstr(says));
  }
}

}  // namespace
}  // namespace softmax::client
