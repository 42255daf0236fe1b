
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "server/config/check.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kManyFiles = 1 << 20;

class ConfigSecurityTest : public ::testing::Test {
 protected:
  // Everything on, and accepted.
  Config Whole() const {
    Config config;
    config.tls_cert = cert_;
    config.tls_key = key_;
    config.tls_client_ca = ca_;
    config.token_file = tokens_;
    config.health_address = "0.0.0.0:8081";
    return config;
  }
  void ExpectRefused(const std::function<void(Config&)>& change, const std::vector<std::string>& words) const {
    Config config = Whole();
    change(config);
    const absl::Status status = CheckConfig(config, kManyFiles);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << words.front();
    for (const std::string& word : words) EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  }

  const testing::TempFolder folder_;
  const std::string cert_ = folder_.Write("cert.pem", "");
  const std::string key_ = folder_.Write("key.pem", "");
  const std::string ca_ = folder_.Write("ca.pem", "");
  const std::string tokens_ = folder_.Write("tokens", "");
};

TEST_F(ConfigSecurityTest, TakesWhatGoesTogether) {
  EXPECT_EQ(CheckConfig(Whole(), kManyFiles), absl::OkStatus());
  Config tokens_at_home;
  tokens_at_home.token_file = tokens_;
  tokens_at_home.address = {"127.0.0.1:50051", "[::1]:50051", "unix:" + folder_.path("s")};
  EXPECT_EQ(CheckConfig(tokens_at_home, kManyFiles), absl::OkStatus());
}

TEST_F(ConfigSecurityTest, RefusesHalfOfAPair) {
  ExpectRefused([](Config& c) { c.tls_cert = "none"; }, {"--tls-cert=none", "--tls-key=" + key_});
  ExpectRefused([](Config& c) { c.tls_key = "none"; }, {"--tls-cert=" + cert_, "--tls-key=none"});
  ExpectRefused([](Config& c) { c.tls_cert = c.tls_key = "none"; }, {"--tls-client-ca=" + ca_, "--tls-cert"});
}

TEST_F(ConfigSecurityTest, RefusesTokensInTheClear) {
  const auto plain = [](Config& c) { c.tls_cert = c.tls_key = c.tls_client_ca = "none"; };
  ExpectRefused(plain, {"--token-file=" + tokens_, "--address=0.0.0.0:50051", "--tls-cert"});
  ExpectRefused(
      [&](Config& c) {
        plain(c);
        c.address = {"127.0.0.1:1", "example.com:2"};
      },
      {"--token-file", "--address=example.com:2"});
}

TEST_F(ConfigSecurityTest, RefusesSecretsThatOthersCanRead) {
  for (const auto& [flag, path] : {std::pair{"--tls-key=", key_}, {"--token-file=", tokens_}}) {
    for (const mode_t mode : {0604, 0602, 0644}) {
      ASSERT_EQ(chmod(path.c_str(), mode), 0);
      ExpectRefused([](Config&) {}, {flag + path, "others"});
    }
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);  // a group of the server's own
    EXPECT_EQ(CheckConfig(Whole(), kManyFiles), absl::OkStatus());
  }
  ASSERT_EQ(chmod(cert_.c_str(), 0644), 0);  // no secret
  EXPECT_EQ(CheckConfig(Whole(), kManyFiles), absl::OkStatus());
}

TEST_F(ConfigSecurityTest, RefusesFilesThatAreNotThere) {
  const std::string gone = folder_.path("gone");
  ExpectRefused([&](Config& c) { c.tls_cert = gone; }, {"--tls-cert=" + gone, "No such file"});
  ExpectRefused([&](Config& c) { c.tls_key = gone; }, {"--tls-key=" + gone, "No such file"});
  ExpectRefused([&](Config& c) { c.tls_client_ca = gone; }, {"--tls-client-ca=" + gone, "No such file"});
  ExpectRefused([&](Config& c) { c.token_file = gone; }, {"--token-file=" + gone, "No such file"});
  ExpectRefused([&](Config& c) { c.token_file = folder_.path(""); }, {"--token-file", "is not a file"});
}

TEST_F(ConfigSecurityTest, RefusesTlsThatNobodyWouldSpeak) {
  ExpectRefused([&](Config& c) { c.address = {"unix:" + folder_.path("s")}; }, {"--tls-cert", "unix socket"});
}

TEST_F(ConfigSecurityTest, RefusesModesThatAreNone) {
  for (const char* mode : {"", "rw", "0800", "1000", "1777", "0060", "0600 "}) {
    ExpectRefused([&](Config& c) { c.unix_socket_mode = mode; }, {std::string("--unix-socket-mode=") + mode, "octal"});
  }
  for (const auto& [text, mode] : {std::pair("0600", 0600u), {"0660", 0660u}, {"0777", 0777u}}) {
    unsigned parsed = 0;
    EXPECT_TRUE(ParseSocketMode(text, &parsed).ok()) << text;
    EXPECT_EQ(parsed, mode);
  }
}

TEST_F(ConfigSecurityTest, TheHealthAddressIsAnAddressOfItsOwn) {
  ExpectRefused([](Config& c) { c.health_address = "0.0.0.0:50051"; },
                {"--health-address=0.0.0.0:50051", "--address=0.0.0.0:50051", "same"});
  ExpectRefused([](Config& c) { c.health_address = "8081"; }, {"--health-address=8081", "host:port"});
  ExpectRefused([](Config& c) { c.max_connection_idle = std::chrono::milliseconds(5); },
                {"--max-connection-idle=5ms", "at least 1s"});
}

}  // namespace
}  // namespace softmax::server
