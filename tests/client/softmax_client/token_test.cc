#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/every_way.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"

// Tokens that no header can carry. gRPC ends the process over them, and prints them.
namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokenTest : public ::testing::Test {
 protected:
  void ExpectRefused(const absl::Status& status, const std::string& words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }

  // Every way to call, with that token.
  void ExpectRefusedInEveryWay(const std::string& token, const std::string& words) {
    token_ = token;
    for (const absl::Status& status : CallInEveryWay(*client_, input_)) ExpectRefused(status, words);
    ExpectRefused(client_->OpenStream({}, [](std::uint64_t, absl::StatusOr<Tensor>) {}).status(), words);
    ExpectRefused(client_->GetServerInfo().status(), words);
    EXPECT_EQ(server_.requests(), 0);
    EXPECT_EQ(server_.questions(), 0);
  }

  FakeServer server_{"unix:" + ::testing::TempDir() + "token_test.sock"};
  const Sample input_ = MakeSample(DataType::kFloat32, {1, 16}, 1);
  std::string token_;
  const std::unique_ptr<Client> client_ =
      *Client::Create({.target = server_.address(), .bearer_token = [this] { return token_; }});
};

TEST_F(TokenTest, ATokenWithAControlCharacterIsRefusedAndNotShown) {
  ExpectRefusedInEveryWay("secret\r", "bearer_token: character 7 is a carriage return");
  ExpectRefusedInEveryWay("secret\n", "bearer_token: character 7 is a line feed");
  ExpectRefusedInEveryWay(std::string("sec\0ret", 7), "bearer_token: character 4 ");
  ExpectRefusedInEveryWay("secret\x1b", "bearer_token: character 7 ");
}

TEST_F(TokenTest, ATokenOfOtherThanVisibleAsciiIsRefused) {
  ExpectRefusedInEveryWay("sec ret", "bearer_token: character 4 ");
  ExpectRefusedInEveryWay("\xef\xbb\xbfsecret", "bearer_token: character 1 ");
  ExpectRefusedInEveryWay("", "bearer_token: is empty");
}

TEST_F(TokenTest, LargeTensorsAskFirstAndAreRefusedTheSame) {
  token_ = "secret\r";
  const Sample large = MakeSample(DataType::kFloat32, {1, 1 << 20}, 1);
  ExpectRefused(client_->Softmax(large.view()).status(), "bearer_token: ");
  ExpectRefused(client_->SoftmaxFuture(large.view()).get().status(), "bearer_token: ");
}

TEST_F(TokenTest, TheNextCallTakesABetterToken) {
  token_ = "secret\r";
  ExpectRefused(client_->Softmax(input_.view()).status(), "bearer_token: ");
  token_ = "secret";
  EXPECT_EQ(client_->Softmax(input_.view()).status(), absl::OkStatus());
  EXPECT_EQ(server_.authorization(), "Bearer secret");
}

TEST_F(TokenTest, AnAuthorityThatNoHeaderCanCarryIsRefused) {
  const auto client = Client::Create({.target = "localhost:1", .authority = "a\r\nb"});
  ASSERT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("authority: character 2 is a carriage return"));
}

}  // namespace
}  // namespace softmax::client
