// Clients that are slow or leave: they cost others nothing, are not given up while they read, and are counted as what
// they were.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "softmax/v1/softmax.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/requests.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kOpenWindow = 0x7fff0000u;

std::string Frame(std::int64_t columns) { return GrpcFrame(RequestOfZeros({columns}).SerializeAsString()); }

std::int64_t Ended(const ServerProcess& server, const std::string& code) {
  const std::string series = R"(softmax_requests_total{method="Softmax",protocol="native",code=")" + code + R"("} )";
  return std::max<std::int64_t>(NumberOf(server, series), 0);  // a code that nobody had yet is not published
}

std::int64_t UsedSlabs(const ServerProcess& server) { return NumberOf(server, R"(softmax_slabs{state="used"} )"); }

// A client that has sent a request of `columns` columns and reads nothing of its answer.
std::unique_ptr<Http2Client> Asked(const ServerProcess& server, std::int64_t columns) {
  auto client = std::make_unique<Http2Client>(server.target(), kOpenWindow);
  const std::uint32_t stream = client->StartCall();
  client->ReadFor(50);  // the server's window comes
  EXPECT_TRUE(client->SendBody(stream, Frame(columns), true));
  return client;
}

std::unique_ptr<client::Client> NewClient(const ServerProcess& server, std::chrono::milliseconds deadline) {
  client::ClientOptions options;
  options.target = server.target();
  options.deadline = deadline;
  options.retry.max_attempts = 1;
  return std::move(*client::Client::Create(options));
}

// Four answers of 12 MiB are asked for and made within it.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::chrono::seconds kAllUnread(15);
#else
constexpr std::chrono::seconds kAllUnread(3);
#endif

TEST(SlowClients, WhoLeavesInMidUploadIsCountedAsCancelled) {
  ServerProcess server({"--threads=1"});
  const std::string frame = Frame(4096);
  for (int i = 0; i < 3; ++i) {
    Http2Client client(server.target(), kOpenWindow);
    const std::uint32_t stream = client.StartCall();
    EXPECT_TRUE(client.SendBody(stream, frame.substr(0, frame.size() / 2), false));
    if (i == 1) client.Reset(stream);
    client.ReadFor(20);
  }
  EXPECT_TRUE(Eventually([&] { return Ended(server, "CANCELLED") == 3; }, std::chrono::seconds(10)))
      << Ended(server, "CANCELLED");
  EXPECT_EQ(Ended(server, "INTERNAL"), 0);
  EXPECT_EQ(NumberOf(server, R"(softmax_requests_rejected_total{reason="invalid"} )"), 0);
}

// A device that takes long, so that the client has left before it is done: what came behind its first batches is
// dropped.
TEST(SlowClients, WhatThoseWhoLeftHadAskedForIsNotRun) {
  // However many calls have come by then, two batches of eight are launched before the client leaves.
  ServerProcess server(WithFault("late:1500ms", {"--threads=1", "--device-timeout=10s", "--max-batch-requests=8"}));
  constexpr int kCalls = 60;
  {
    Http2Client client(server.target(), kOpenWindow);
    client.ReadFor(50);
    const std::string frame = Frame(1024);
    for (int i = 0; i < kCalls; ++i) EXPECT_TRUE(client.SendBody(client.StartCall(), frame, true));
    client.ReadFor(50);
  }
  EXPECT_TRUE(Eventually([&] { return Ended(server, "CANCELLED") == kCalls; }, std::chrono::seconds(20)))
      << Ended(server, "CANCELLED");
  EXPECT_EQ(Ended(server, "OK"), 0);
  EXPECT_LT(NumberOf(server, "softmax_batch_requests_sum "), kCalls);
  EXPECT_EQ(UsedSlabs(server), 0);
}

// 8 MiB, as fast as a reader takes them that looks a hundred times a second and has room for 16 KiB.
TEST(SlowClients, WhoReadsSteadilyGetsItsAnswer) {
  ServerProcess server({"--answer-timeout=2s", "--threads=1"});
  const std::unique_ptr<Http2Client> client = Asked(server, 2 << 20);
  const auto begin = Clock::now();
  std::size_t read = 0;
  while (read < (8u << 20) && Clock::now() - begin < std::chrono::seconds(30)) {
    read += client->Read(64 << 10);
    LetPass(std::chrono::milliseconds(10));
  }
  EXPECT_GE(read, 8u << 20);
  EXPECT_GT(Clock::now() - begin, std::chrono::seconds(3)) << "no slow reader";
  EXPECT_TRUE(Eventually([&] { return Ended(server, "OK") == 1; }, std::chrono::seconds(5)));
  EXPECT_EQ(Ended(server, "CANCELLED"), 0);
}

TEST(SlowClients, WhoDoesNotReadIsGivenUpAndCountedAsCancelled) {
  for (const std::uint32_t window : {0u, kOpenWindow}) {
    ServerProcess server({"--answer-timeout=1s", "--threads=1"});
    Http2Client client(server.target(), window);
    const std::uint32_t stream = client.StartCall();
    client.ReadFor(50);
    EXPECT_TRUE(client.SendBody(stream, Frame(3 << 20), true));
    EXPECT_TRUE(Eventually([&] { return Ended(server, "CANCELLED") == 1; }, std::chrono::seconds(5)))
        << "window " << window;
    EXPECT_TRUE(Eventually([&] { return UsedSlabs(server) == 0; }, std::chrono::seconds(5)));
    EXPECT_EQ(Ended(server, "OK"), 0);
  }
}

// Four connections do not read 12 MiB each, and there are 64: a request of 30 MiB waits until they are given up. Small
// requests do not.
TEST(SlowClients, SmallRequestsOvertakeALargeOneThatWaitsForUnreadAnswers) {
  ServerProcess server({absl::StrCat("--answer-timeout=", kAllUnread.count(), "s"), "--threads=1",
                        "--arena-bytes=64MiB", "--max-request-bytes=32MiB", "--max-response-bytes=32MiB"});
  const auto small = NewClient(server, std::chrono::milliseconds(kAllUnread) / 3);
  const Question question = MakeQuestion({4, 64}, 1);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(small->Softmax(question.view(), question.options()).ok());
  std::vector<std::unique_ptr<Http2Client>> unread;
  for (int i = 0; i < 4; ++i) unread.push_back(Asked(server, 3 << 20));
  ASSERT_TRUE(Eventually([&] { return UsedSlabs(server) > 600; }, kAllUnread)) << UsedSlabs(server);
  std::atomic<bool> answered{false};
  absl::Status large_status;
  std::jthread large([&] {
    const Question large_question = MakeQuestion({30, 256 << 10}, 2);
    large_status =
        NewClient(server, std::chrono::seconds(30))->Softmax(large_question.view(), large_question.options()).status();
    answered = true;
  });
  EXPECT_TRUE(Eventually([&] { return NumberOf(server, "softmax_requests_queued ") > 0; }, kAllUnread));
  int failed = 0, asked = 0;
  absl::Status why;
  Clock::duration slowest{0};
  while (!answered) {
    const auto begin = Clock::now();
    if (const auto answer = small->Softmax(question.view(), question.options()); !answer.ok()) {
      ++failed;
      why = answer.status();
    }
    slowest = std::max(slowest, Clock::now() - begin);
    ++asked;
    LetPass(std::chrono::milliseconds(2));  // leaves the server's cores to the large one
  }
  large.join();
  EXPECT_TRUE(large_status.ok()) << large_status;
  EXPECT_GT(asked, 100);
  EXPECT_EQ(failed, 0) << "of " << asked << ", the last: " << why;
  EXPECT_LT(slowest, std::chrono::milliseconds(kAllUnread) / 6);
  std::printf("%d small requests, the slowest %.1f ms\n", asked,
              std::chrono::duration<double, std::milli>(slowest).count());
}

}  // namespace
}  // namespace softmax::testing
