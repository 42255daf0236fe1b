#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/client/support/server_program.h"
#include "tests/support/eventually.h"

// Each way to go wrong has its own clear error, within the call's deadline.
namespace softmax::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr seconds kLongEnough(20);

std::unique_ptr<Client> ClientTo(const std::string& target) {
  return *Client::Create({.target = target, .deadline = kLongEnough});
}

// The status of a call that has to fail with `code` before its deadline.
std::string MessageOf(Client& client, absl::StatusCode code, const Sample& input, const SoftmaxOptions& options = {}) {
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = client.Softmax(input.view(), options).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLongEnough);
  return std::string(status.message());
}

const Sample& OneRow() {
  static const Sample sample = MakeSample(DataType::kFloat32, {1, 16}, 1);
  return sample;
}

TEST(ErrorsTest, AWrongAddress) {
  const auto client = ClientTo("no-such-host.invalid:50051");
  const std::string message = MessageOf(*client, absl::StatusCode::kUnavailable, OneRow());
  // Without a name server nobody can know.
  EXPECT_THAT(message, AnyOf(StartsWith("no-such-host.invalid:50051: the name has no address"),
                             StartsWith("no-such-host.invalid:50051: the name could not be looked up")));
}

TEST(ErrorsTest, ARefusedPort) {
  const std::string address = FreeAddress();
  const std::string message = MessageOf(*ClientTo(address), absl::StatusCode::kUnavailable, OneRow());
  EXPECT_THAT(message, StartsWith(address + ": nobody listens there"));
  EXPECT_THAT(message, HasSubstr("after 5 attempts"));
}

TEST(ErrorsTest, ASocketThatIsNotThere) {
  const std::string message =
      MessageOf(*ClientTo("unix:/nonexistent/softmax.sock"), absl::StatusCode::kUnavailable, OneRow());
  EXPECT_THAT(message, StartsWith("unix:/nonexistent/softmax.sock: nobody listens there"));
}

TEST(ErrorsTest, AServerThatDiesInTheMiddleOfACall) {
  ServerProgram server(FreeAddress(), 30000);
  const auto client =
      *Client::Create({.target = server.address(), .deadline = kLongEnough, .retry = {.max_attempts = 1}});
  ASSERT_TRUE(client->WaitForConnection(seconds(20)).ok());
  auto message =
      std::async(std::launch::async, [&] { return MessageOf(*client, absl::StatusCode::kUnavailable, OneRow()); });
  EXPECT_TRUE(testing::Eventually([&] { return server.connections() == 1; }));  // it has the request
  server.Kill();
  EXPECT_THAT(message.get(), StartsWith(server.address() + ": the connection broke before the answer came"));
}

TEST(ErrorsTest, AServerThatStopsReplying) {
  ServerProgram server(FreeAddress());
  const auto client = *Client::Create({.target = server.address(),
                                       .deadline = std::chrono::minutes(5),
                                       .keepalive_time = milliseconds(200),
                                       .keepalive_timeout = milliseconds(300),
                                       .retry = {.max_attempts = 1}});
  ASSERT_TRUE(client->Softmax(OneRow().view()).ok());
  server.Stop();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = client->Softmax(OneRow().view()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), StartsWith(server.address() + ": the server has stopped replying"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(60));  // long before the deadline
}

TEST(ErrorsTest, AnExpiredDeadline) {
  FakeServer server;
  const auto client = ClientTo(server.address());
  ASSERT_TRUE(client->Softmax(OneRow().view()).ok());
  server.behavior().delay_ms = 5000;
  EXPECT_EQ(MessageOf(*client, absl::StatusCode::kDeadlineExceeded, OneRow(), {.timeout = milliseconds(150)}),
            server.address() + ": deadline exceeded: no answer within 150 ms");
}

TEST(ErrorsTest, AnOversizeTensor) {
  FakeServer server;
  server.behavior().few_abilities = true;  // 3 MiB at most
  const auto client = ClientTo(server.address());
  const Sample large = MakeSample(DataType::kFloat32, {1, 1 << 20}, 1);
  const Sample fits = MakeSample(DataType::kFloat32, {1, 600000}, 1);
  const std::string expected =
      server.address() + ": data: 4194304 bytes, above the server's max_request_bytes of 3145728";
  EXPECT_EQ(MessageOf(*client, absl::StatusCode::kInvalidArgument, large), expected);
  const auto future = client->SoftmaxFuture(large.view()).get();
  EXPECT_EQ(future.status().message(), expected);
  const BatchItem items[] = {{fits.view()}, {large.view()}};
  const auto batch = client->SoftmaxBatch(items);
  EXPECT_TRUE(batch[0].ok()) << batch[0].status();
  EXPECT_EQ(batch[1].status().message(), expected);
  EXPECT_EQ(server.requests(), 1);
  EXPECT_EQ(server.questions(), 1);
  EXPECT_THAT(MessageOf(*client, absl::StatusCode::kInvalidArgument, fits, {.output_dtype = DataType::kFloat64}),
              HasSubstr("float64"));
}

TEST(ErrorsTest, AnAsynchronousCallAsksForTheLimitsToo) {
  FakeServer server;
  server.behavior().few_abilities = true;
  const auto client = ClientTo(server.address());
  const Sample large = MakeSample(DataType::kFloat32, {1, 1 << 20}, 1);
  const auto answer = client->SoftmaxFuture(large.view()).get();
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("above the server's max_request_bytes of 3145728"));
  EXPECT_EQ(server.requests(), 0);
}

TEST(ErrorsTest, LargeAnswersNeedNoSettingAndAreAskedAboutOnce) {
  FakeServer server;
  const auto client = ClientTo(server.address());
  const Sample large = MakeSample(DataType::kFloat32, {1, 2 << 20}, 1);  // 8 MiB: above gRPC's own 4
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->Softmax(large.view()).status(), absl::OkStatus());
  EXPECT_EQ(server.questions(), 1);
  EXPECT_EQ(client->Stats().attempts, 3u);
}

TEST(ErrorsTest, AServerThatLeavesTheQuestionOpenIsAskedOnlyOnce) {
  FakeServer server;
  server.behavior().leave_questions_open = true;
  const auto client = ClientTo(server.address());
  const Sample large = MakeSample(DataType::kFloat32, {1, 1 << 20}, 1);
  EXPECT_EQ(client->Softmax(large.view()).status(), absl::OkStatus());
  EXPECT_EQ(client->SoftmaxFuture(large.view()).get().status(), absl::OkStatus());
  EXPECT_EQ(server.questions(), 1);
}

TEST(ErrorsTest, ATimeoutOfZeroOrLessIsRefusedHoweverItIsGiven) {
  FakeServer server;
  const auto client = ClientTo(server.address());
  for (const auto timeout : {milliseconds(0), milliseconds(-1)}) {
    const std::string expected = "timeout: " + std::to_string(timeout.count() * 1000000) + " ns, must be above 0";
    const auto refused = [&](const absl::Status& status) { EXPECT_EQ(status, absl::InvalidArgumentError(expected)); };
    std::vector<std::byte> into(OneRow().data.size());
    const BatchItem items[] = {{OneRow().view()}};
    refused(client->Softmax(OneRow().view(), {.timeout = timeout}).status());
    refused(client->SoftmaxInto(OneRow().view(), into, {.timeout = timeout}));
    refused(client->SoftmaxFuture(OneRow().view(), {.timeout = timeout}).get().status());
    refused(client->SoftmaxBatch(items, {.timeout = timeout})[0].status());
    refused(client->OpenStream({.timeout = timeout}, [](std::uint64_t, absl::StatusOr<Tensor>) {}).status());
    refused(client->GetServerInfo(timeout).status());
  }
  EXPECT_EQ(server.requests(), 0);
  EXPECT_EQ(server.questions(), 0);
}

TEST(ErrorsTest, OptionsOutOfRangeAreNamed) {
  const auto message = [](const ClientOptions& options) {
    const auto client = Client::Create(options);
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(client.status().message());
  };
  EXPECT_THAT(message({.target = ""}), HasSubstr("target: "));
  EXPECT_THAT(message({.deadline = milliseconds(0)}), HasSubstr("deadline: "));
  EXPECT_THAT(message({.connections = 0}), HasSubstr("connections: "));
  EXPECT_THAT(message({.target = "localhost"}), HasSubstr("target: 'localhost' has no port"));
  EXPECT_THAT(message({.max_receive_bytes = -2}), HasSubstr("max_receive_bytes: -2"));
  EXPECT_THAT(message({.keepalive_time = milliseconds(-1)}), HasSubstr("keepalive_time: -1"));
  EXPECT_THAT(message({.retry = {.max_attempts = 0}}), HasSubstr("retry.max_attempts: 0"));
  EXPECT_THAT(message({.retry = {.initial_backoff = milliseconds(0)}}), HasSubstr("retry.initial_backoff: 0 ms"));
  EXPECT_THAT(message({.retry = {.multiplier = 0.5}}), HasSubstr("retry.multiplier"));
  EXPECT_THAT(message({.retry = {.max_tokens = 0}}), HasSubstr("retry.max_tokens"));
  EXPECT_THAT(message({.retry = {.token_ratio = 0}}), HasSubstr("retry.token_ratio"));
  EXPECT_THAT(message({.tls = TlsOptions{"/etc/ca.pem"}}), HasSubstr("tls.root_certificates: is not PEM"));
  EXPECT_THAT(message({.tls = TlsOptions{"", "-----BEGIN X"}}), HasSubstr("private_key go together"));
  EXPECT_THAT(message({.bearer_token = [] { return std::string("t"); }}), HasSubstr("bearer_token: needs tls"));
}

}  // namespace
}  // namespace softmax::client
