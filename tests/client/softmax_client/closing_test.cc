#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/closing_proxy.h"
#include "tests/client/support/every_way.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"

// Calls that meet a connection that the server is closing, as at its greatest age or after a time without calls.
namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using Closing = ClosingProxy::Way;

class ClosingTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> OneAttempt() {
    return *Client::Create(
        {.target = proxy_.address(), .deadline = std::chrono::seconds(60), .retry = {.max_attempts = 1}});
  }

  FakeServer server_;
  ClosingProxy proxy_{server_.address()};
  const Sample small_ = MakeSample(DataType::kFloat32, {1, 16}, 1);
};

TEST_F(ClosingTest, WhatNoServerHasSeenIsSentAgainWithOneAttemptTooHoweverItIsCalled) {
  for (const Closing way : {Closing::kGoAway, Closing::kRefuse}) {
    // Each on a connection of its own, of which the first two end.
    for (const Way how : kUnaryWays) {
      proxy_.CloseNext(2, way);
      const auto client = OneAttempt();
      EXPECT_EQ(CallBy(how, *client, small_).status(), absl::OkStatus());
      // It counts as no attempt.
      EXPECT_EQ(client->Stats().attempts, 1u);
      EXPECT_EQ(client->Stats().retries, 0u);
    }
    proxy_.CloseNext(2, way);
    EXPECT_EQ(OneAttempt()->GetServerInfo().status(), absl::OkStatus());
  }
  EXPECT_EQ(proxy_.closed(), 20);
  EXPECT_EQ(server_.requests(), 2 * 4);
}

TEST_F(ClosingTest, WhatAServerMayHaveSeenIsNot) {
  proxy_.CloseNext(1, Closing::kGoAwaySeen);
  const auto client = OneAttempt();
  const absl::Status status = client->Softmax(small_.view()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the connection broke before the answer came"));
  EXPECT_EQ(client->Stats().attempts, 1u);
  EXPECT_EQ(server_.requests(), 0);
}

TEST_F(ClosingTest, WhoeverRefusesEverythingIsNotAskedForEver) {
  proxy_.CloseNext(1000, Closing::kGoAway);
  const auto client = OneAttempt();
  EXPECT_EQ(client->Softmax(small_.view()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(proxy_.closed(), 2);
  EXPECT_LE(proxy_.closed(), 20);
  EXPECT_EQ(client->Stats().attempts, 1u);
}

}  // namespace
}  // namespace softmax::client
