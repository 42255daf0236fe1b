#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/every_way.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/support/eventually.h"

namespace softmax::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::int64_t kLarge = 4 << 20;

struct Case {
  Way way;
  std::int64_t columns;  // of float32
};

const Sample& SampleOf(std::int64_t columns) {
  static const Sample small = MakeSample(DataType::kFloat32, {1, 16}, 5);
  static const Sample large = MakeSample(DataType::kFloat32, {1, kLarge}, 5);
  return columns == kLarge ? large : small;
}

// Every way to call, with a tensor that is copied into the message and with one that is sent from where it lies.
class RetryTest : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    options.target = server_.address();
    options.deadline = seconds(60);
    return *Client::Create(options);
  }

  // Judged, and its status given back.
  absl::Status Call(Client& client, const SoftmaxOptions& options = {}) {
    absl::StatusOr<Tensor> answer = CallBy(GetParam().way, client, input_, options);
    if (!answer.ok()) return answer.status();
    // A large answer that equals one found right is right.
    static std::vector<std::byte> right;
    if (std::equal(right.begin(), right.end(), answer->data().begin(), answer->data().end())) return absl::OkStatus();
    const std::string wrong = Wrong(input_, *answer, options);
    if (!wrong.empty()) return absl::DataLossError(wrong);
    right.assign(answer->data().begin(), answer->data().end());
    return absl::OkStatus();
  }

  FakeServer server_;
  const Sample& input_ = SampleOf(GetParam().columns);
};

TEST_P(RetryTest, UnavailableIsTriedAgainUntilItWorks) {
  const auto client = Connect();
  server_.behavior().fail_next = 3;
  EXPECT_EQ(Call(*client), absl::OkStatus());
  EXPECT_EQ(server_.requests(), 4);
  const ClientStats stats = client->Stats();
  EXPECT_EQ(stats.calls, 1u);
  EXPECT_EQ(stats.calls_by_code[0], 1u);
  EXPECT_EQ(stats.attempts, 4u);
  EXPECT_EQ(stats.retries, 3u);
  EXPECT_EQ(stats.attempts_by_code[14], 3u);
  EXPECT_EQ(stats.attempts_by_code[0], 1u);
}

TEST_P(RetryTest, GivesUpAfterItsAttemptsAndSaysHowMany) {
  const auto client = Connect({.retry = {.max_attempts = 3}});
  server_.behavior().fail_next = 100;
  const absl::Status status = Call(*client);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), StartsWith(server_.address() + ": not now"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(after 3 attempts)"));
  EXPECT_EQ(server_.requests(), 3);
  EXPECT_EQ(client->Stats().calls_by_code[14], 1u);
}

TEST_P(RetryTest, OneAttemptMeansOne) {
  const auto client = Connect({.retry = {.max_attempts = 1}});
  server_.behavior().fail_next = 1;
  EXPECT_EQ(Call(*client).message(), server_.address() + ": not now");
  EXPECT_EQ(server_.requests(), 1);
}

TEST_P(RetryTest, ExhaustionWithoutAdviceIsFinal) {
  const auto client = Connect();
  server_.behavior().fail_next = 1;
  server_.behavior().fail_code = 8;
  EXPECT_EQ(Call(*client).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(server_.requests(), 1);
  EXPECT_EQ(Call(*client), absl::OkStatus());
}

TEST_P(RetryTest, ExhaustionWithAdviceIsTriedAgainAtThatTime) {
  const auto client = Connect();
  server_.behavior().fail_next = 1;
  server_.behavior().fail_code = 8;
  server_.behavior().pushback_ms = 250;
  EXPECT_EQ(Call(*client), absl::OkStatus());
  const auto arrivals = server_.arrivals();
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_GE(arrivals[1] - arrivals[0], milliseconds(249));  // timers round
}

TEST_P(RetryTest, NothingIsTriedAgainPastTheDeadline) {
  const auto client = Connect();
  server_.behavior().fail_next = 1;
  server_.behavior().fail_code = 8;
  server_.behavior().pushback_ms = 3600000;
  const absl::Status status = Call(*client, {.timeout = seconds(30)});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(status), milliseconds(3600000));
  EXPECT_EQ(server_.requests(), 1);
}

TEST_P(RetryTest, OtherFailuresAreFinal) {
  const auto client = Connect();
  for (const int code : {2, 3, 5, 7, 9, 10, 12, 13, 15, 16}) {
    server_.behavior().fail_next = 1;
    server_.behavior().fail_code = code;
    const int before = server_.requests();
    EXPECT_EQ(static_cast<int>(Call(*client).code()), code);
    EXPECT_EQ(server_.requests(), before + 1);
  }
}

TEST_P(RetryTest, ABrokenBudgetStopsRetriesUntilCallsEndWell) {
  const auto client = Connect({.retry = {.max_tokens = 4, .token_ratio = 1}});
  server_.behavior().fail_next = 100;
  const absl::Status status = Call(*client);  // one retry leaves 2 of 4: no more
  EXPECT_THAT(std::string(status.message()), HasSubstr("no budget for more"));
  EXPECT_EQ(server_.requests(), 2);
  EXPECT_EQ(client->Stats().throttled, 1u);
  EXPECT_NE(Call(*client), absl::OkStatus());
  EXPECT_EQ(server_.requests(), 3);
  server_.behavior().fail_next = 0;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Call(*client), absl::OkStatus());
  server_.behavior().fail_next = 1;
  EXPECT_EQ(Call(*client), absl::OkStatus());
}

TEST_P(RetryTest, ACancelledWaitForTheNextAttemptEndsAtOnce) {
  const auto client = Connect();
  server_.behavior().fail_next = 1;
  server_.behavior().fail_code = 8;
  server_.behavior().pushback_ms = 50000;
  std::stop_source stop;
  auto status = std::async(std::launch::async, [&] { return Call(*client, {.cancel = stop.get_token()}); });
  EXPECT_TRUE(testing::Eventually([&] { return server_.requests() > 0; }));
  const auto start = std::chrono::steady_clock::now();
  stop.request_stop();
  EXPECT_EQ(status.get().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  EXPECT_EQ(server_.requests(), 1);
}

TEST(BatchRetryTest, ARoundThatAnswersSomeBeginsTheAttemptsAnew) {
  FakeServer server;
  const auto client = *Client::Create({.target = server.address(), .retry = {.max_attempts = 2}});
  const std::vector<BatchItem> items(10, BatchItem{SampleOf(16).view(), {}});
  server.behavior().fail_next = 15;  // of the second round five
  for (const auto& answer : client->SoftmaxBatch(items)) EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(server.requests(), 25);
  EXPECT_EQ(client->Stats().retries, 15u);
}

std::string NameOfCase(const ::testing::TestParamInfo<Case>& info) {
  return std::string(kWayNames[static_cast<int>(info.param.way)]) + (info.param.columns == 16 ? "64B" : "16MiB");
}

INSTANTIATE_TEST_SUITE_P(WaysAndSizes, RetryTest,
                         ::testing::Values(Case{Way::kSync, 16}, Case{Way::kInto, 16}, Case{Way::kAsync, 16},
                                           Case{Way::kBatch, 16}, Case{Way::kSync, kLarge}, Case{Way::kInto, kLarge},
                                           Case{Way::kAsync, kLarge}, Case{Way::kBatch, kLarge}),
                         NameOfCase);

}  // namespace
}  // namespace softmax::client
