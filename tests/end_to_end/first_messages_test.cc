// Calls before their message is whole: messages that claim too much, and those that never come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "server/rpc/accept/late_greetings.h"
#include "server/rpc/guard/read_guard.h"
#include "tests/end_to_end/good_client.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/sanitized.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint32_t kGranted = 65535;
constexpr const char* kResourceExhausted = "8";
constexpr const char* kInvalidArgument = "3";
constexpr const char* kUnimplemented = "12";
// A message's head.
const std::string kFourGibibytes("\0\xff\xff\xff\xff", 5);

// The counts are the process's, and forget by and by.
void ExpectNoneOfEarlierServices() {
  EXPECT_TRUE(Eventually([] { return server::ReadGuard::waiting_calls() == 0; }));
}

TEST(FirstMessages, AreCutAtTheLengthThatTheyClaim) {
  ServerProcess server({"--backend=cpu"});
  GoodClient good(server.target());
  EXPECT_TRUE(good.IsUnderWay());
  const std::string control = "the message has 4294967295 bytes; this method takes at most 4096";
  const std::string tensors = "message: has 4294967295 bytes; must be at most ";
  for (const auto& [method, code, words] :
       {std::tuple("/grpc.health.v1.Health/Check", kResourceExhausted, control),
        {"/grpc.health.v1.Health/Watch", kResourceExhausted, control},
        {"/softmax.v1.SoftmaxService/GetServerInfo", kResourceExhausted, control},
        {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kResourceExhausted, control},
        {"/inference.GRPCInferenceService/ModelReady", kResourceExhausted, control},
        {"/softmax.v1.SoftmaxService/Softmax", kInvalidArgument, tensors},
        {"/softmax.v1.SoftmaxService/SoftmaxStream", kInvalidArgument, tensors},
        {"/inference.GRPCInferenceService/ModelInfer", kInvalidArgument, tensors},
        {"/inference.GRPCInferenceService/ModelStreamInfer", kInvalidArgument, tensors}}) {
    Http2Client client(server.target(), kGranted);
    const std::uint32_t stream = client.StartCall(method);
    EXPECT_TRUE(client.SendBody(stream, kFourGibibytes + std::string(95, 'x'), /*end=*/false));
    const std::string status = client.ReadStatus();
    EXPECT_THAT(status, StartsWith(code)) << method;
    EXPECT_THAT(status, HasSubstr(words)) << method;
    // The connection goes on.
    client.StartCall("/no/such");
    EXPECT_THAT(client.ReadStatus(), StartsWith(kUnimplemented)) << method;
  }
  // As far as the windows let them.
  const std::int64_t before = server.ResidentBytes();
  for (const char* method : {"/grpc.health.v1.Health/Check", "/softmax.v1.SoftmaxService/SoftmaxStream"}) {
    Http2Client client(server.target(), kGranted);
    client.SendBody(client.StartCall(method), kFourGibibytes + std::string(64 << 20, 'x'), /*end=*/false);
  }
  if (!kIsSanitized) {
    EXPECT_LT(server.PeakResidentBytes() - before, 32 << 20);
  }
  (void)good.P99Ms();
}

// A length that arrives in pieces has been seen by gRPC in part.
TEST(FirstMessages, ThatHideTheirLengthEndTheConnection) {
  Service service;
  const std::uint64_t before = server::ReadGuard::ended(server::FrameMeter::Verdict::kMessages);
  Http2Client client(service.target(), kGranted);
  const std::uint32_t stream = client.StartCall();
  EXPECT_TRUE(client.SendBody(stream, kFourGibibytes.substr(0, 2), /*end=*/false));
  EXPECT_TRUE(client.SendBody(stream, kFourGibibytes.substr(2), /*end=*/false));
  EXPECT_TRUE(client.ClosedWithin(5000));
  EXPECT_EQ(server::ReadGuard::ended(server::FrameMeter::Verdict::kMessages), before + 1);
}

TEST(FirstMessages, ThatNeverComeEndTheirConnections) {
  ServerProcess server({"--backend=cpu", "--max-waiting-calls=1000"});
  GoodClient good(server.target());
  EXPECT_TRUE(good.IsUnderWay());
  Http2Client early(server.target(), kGranted);
  const std::uint32_t stream = early.StartCall();
  const std::int64_t before = server.ResidentBytes();
  std::vector<std::unique_ptr<Http2Client>> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<Http2Client>(server.target(), kGranted));
    for (int call = 0; call < 256; ++call) clients.back()->StartCall();
  }
  EXPECT_TRUE(server.LogComesToHave("too many calls wait for their first message")) << server.Log();
  // It is greeted as late as any, since others of its network were ended.
  constexpr auto kPatience = server::LateGreetings::kMost + std::chrono::seconds(5);
  EXPECT_TRUE(kIsSanitized || clients.back()->ClosedWithin(static_cast<int>(kPatience / std::chrono::milliseconds(1))));
  // 256 calls on each of 60 connections take 160 MiB.
  if (!kIsSanitized) {
    EXPECT_LT(server.PeakResidentBytes() - before, 48 << 20);
  }
  // A call that was opened long before its message is no flood.
  EXPECT_TRUE(early.SendBody(stream, GrpcFrame(""), /*end=*/true));
  EXPECT_THAT(early.ReadStatus(), StartsWith(kInvalidArgument));
  (void)good.P99Ms();
}

TEST(FirstMessages, ThatNeverComeHoldTheirPlacesForATime) {
  Service service([](server::Config& config) {
    config.max_waiting_calls = 200;
    config.first_message_timeout = std::chrono::seconds(1);
  });
  ExpectNoneOfEarlierServices();
  const auto with = [&service](int calls) {
    auto client = std::make_unique<Http2Client>(service.target(), kGranted);
    for (int i = 0; i < calls; ++i) client->StartCall();
    return client;
  };
  const auto first = with(90);
  EXPECT_FALSE(first->ClosedWithin(2000)) << "fewer than half of those that may wait";
  const auto second = with(60);
  EXPECT_TRUE(first->ClosedWithin(5000));
  EXPECT_FALSE(second->ClosedWithin(2000)) << "alone it is fewer than half";
}

TEST(FirstMessages, ThatComeInPiecesAreNoFlood) {
  Service service([](server::Config& config) {
    config.max_waiting_calls = 80;
    config.first_message_timeout = std::chrono::seconds(1);
  });
  ExpectNoneOfEarlierServices();
  const std::string body = GrpcFrame(std::string(1500, 'x'));
  std::vector<std::unique_ptr<Http2Client>> clients;
  std::vector<std::uint32_t> streams;
  for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<Http2Client>(service.target(), kGranted));
  for (int call = 0; call < 32; ++call) {  // 128 wait
    for (const auto& client : clients) {
      const std::uint32_t stream = client->StartCall();
      EXPECT_TRUE(client->SendBody(stream, body.substr(0, 700), /*end=*/false));
      if (client == clients.front()) streams.push_back(stream);
    }
  }
  EXPECT_TRUE(Eventually([] { return server::ReadGuard::waiting_calls() >= 128; }));
  // A piece every 300 ms, for three times as long as those may wait that bring nothing.
  for (std::size_t at = 700; at < 710; ++at) {
    LetPass(std::chrono::milliseconds(300));
    for (const auto& client : clients) EXPECT_TRUE(client->SendBody(streams[0], body.substr(at, 1), /*end=*/false));
  }
  for (const auto& client : clients) {
    EXPECT_TRUE(client->SendBody(streams[0], body.substr(710), /*end=*/true));
    EXPECT_THAT(client->ReadStatus(), StartsWith(kInvalidArgument));
  }
}

// Calls that the server ends before their message are done with, without a word of the client.
TEST(FirstMessages, OfEndedCallsAreNotWaitedFor) {
  Service service;
  ExpectNoneOfEarlierServices();
  Http2Client client(service.target(), kGranted);
  client.StartCall("/no/such");
  client.StartCall();
  EXPECT_TRUE(Eventually([] { return server::ReadGuard::waiting_calls() == 1; }));
  EXPECT_THAT(client.ReadStatus(), StartsWith(kUnimplemented));
  EXPECT_EQ(server::ReadGuard::waiting_calls(), 1);
}

}  // namespace
}  // namespace softmax::testing
