#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/client/support/server_program.h"
#include "tests/support/eventually.h"

namespace softmax::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const Sample& Small() {
  static const Sample sample = MakeSample(DataType::kFloat32, {1, 16}, 1);
  return sample;
}

// Calls until `done`, or until a limit that only a fault exceeds.
template <typename Done>
bool CallUntil(Client& client, Done done) {
  const auto done_by_now = [&] {
    if (done()) return true;
    EXPECT_TRUE(client.Softmax(Small().view()).ok());
    return false;
  };
  return testing::Eventually(done_by_now, seconds(60), milliseconds(1));
}

std::unique_ptr<Client> ClientOf(ClientOptions options) {
  options.deadline = seconds(60);
  auto client = Client::Create(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

TEST(ServersTest, CallsAreDealtOutToAll) {
  FakeServer a;
  FakeServer b;
  const auto client = ClientOf({.target = "ipv4:" + a.address() + "," + b.address()});
  EXPECT_TRUE(CallUntil(*client, [&] { return a.requests() > 0 && b.requests() > 0; }));  // both are connected
  const int before_a = a.requests();
  const int before_b = b.requests();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(client->Softmax(Small().view()).ok());
  EXPECT_EQ(a.requests() - before_a, 50);
  EXPECT_EQ(b.requests() - before_b, 50);
}

TEST(ServersTest, ARetryGoesToAnotherAddress) {
  FakeServer bad;
  FakeServer good;
  const auto client = ClientOf({.target = bad.address() + "," + good.address(), .retry = {.max_attempts = 2}});
  EXPECT_TRUE(CallUntil(*client, [&] { return bad.requests() > 0 && good.requests() > 0; }));
  bad.behavior().fail_next = 1000000;
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) failed += client->Softmax(Small().view()).ok() ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GE(client->Stats().retries, 50u);
}

TEST(ServersTest, AServerThatIsNotServingGetsNoCalls) {
  FakeServer a;
  FakeServer b;
  const auto client = ClientOf({.target = a.address() + "," + b.address()});
  EXPECT_TRUE(CallUntil(*client, [&] { return a.requests() > 0 && b.requests() > 0; }));
  a.behavior().serving = false;
  int quiet_since = a.requests();
  int quiet = 0;
  EXPECT_TRUE(CallUntil(*client, [&] {
    quiet = a.requests() == quiet_since ? quiet + 1 : 0;
    quiet_since = a.requests();
    return quiet > 100;
  }));
  a.behavior().serving = true;
  EXPECT_TRUE(CallUntil(*client, [&] { return a.requests() > quiet_since; }));
  EXPECT_EQ(client->Stats().retries, 0u);
}

TEST(ServersTest, AHealthServiceThatIsNotWantedIsNotAsked) {
  FakeServer a;
  FakeServer b;
  a.behavior().serving = false;
  const auto client = ClientOf({.target = a.address() + "," + b.address(), .health_checks = false});
  EXPECT_TRUE(CallUntil(*client, [&] { return a.requests() > 10; }));
}

// The promise: one of two is killed under load and comes back; nobody notices but the counters.
TEST(ServersTest, NoCallFailsWhenOneOfTwoIsKilledAndStartedAgain) {
  ServerProgram a(FreeAddress(), 1);
  ServerProgram b(FreeAddress(), 1);
  const auto client = ClientOf({.target = "ipv4:" + a.address() + "," + b.address(), .connections = 2});
  ASSERT_TRUE(client->WaitForConnection(seconds(60)).ok());
  std::atomic<bool> stop = false;
  std::atomic<int> done = 0;
  std::mutex mu;
  std::vector<absl::Status> failures;
  const Sample large = MakeSample(DataType::kFloat32, {3, 10000}, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        const Sample& input = t % 2 == 0 ? Small() : large;
        const auto answer = t < 4 ? client->Softmax(input.view()) : client->SoftmaxFuture(input.view()).get();
        ++done;
        std::lock_guard lock(mu);
        if (!answer.ok()) failures.push_back(answer.status());
      }
    });
  }
  const auto pass = [&](int calls) {
    const int until = done + calls;
    EXPECT_TRUE(testing::Eventually([&] { return done >= until; }, seconds(60))) << "calls hang";
  };
  for (ServerProgram* victim : {&a, &a, &b}) {
    // Before the other one dies, both connections to this one must be in use again.
    if (victim == &b) {
      EXPECT_TRUE(testing::Eventually([&] { return a.connections() == 2; }));
    }
    pass(300);
    victim->Kill();
    pass(300);
    victim->Start();
  }
  pass(300);
  stop = true;
  for (auto& thread : threads) thread.join();
  const ClientStats stats = client->Stats();
  EXPECT_TRUE(failures.empty()) << failures.size() << " of " << done << ", such as " << failures[0];
  EXPECT_GT(stats.retries, 0u);
  EXPECT_EQ(stats.calls, stats.calls_by_code[0]);
  std::printf("%d calls, %d retries\n", static_cast<int>(stats.calls), static_cast<int>(stats.retries));
}

TEST(ServersTest, WhoWaitsForAServerGetsItWhenItComes) {
  for (const bool two : {false, true}) {
    const std::string late_address = FreeAddress();
    const std::string target = two ? FreeAddress() + "," + late_address : late_address;
    const auto client = ClientOf({.target = target, .wait_for_ready = true});
    const auto alone = ClientOf({.target = target, .wait_for_ready = true});  // has no thread of its own
    auto sync = std::async(std::launch::async, [&] { return alone->Softmax(Small().view()).status(); });
    auto async = client->SoftmaxFuture(Small().view());
    EXPECT_EQ(async.wait_for(milliseconds(300)), std::future_status::timeout);
    ServerProgram late(late_address);
    EXPECT_EQ(sync.get(), absl::OkStatus());
    EXPECT_EQ(async.get().status(), absl::OkStatus());
  }
}

TEST(ServersTest, WhoWaitsInVainIsToldAtTheDeadline) {
  const auto client = ClientOf({.target = FreeAddress(), .wait_for_ready = true});
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = client->Softmax(Small().view(), {.timeout = milliseconds(500)}).status();
  EXPECT_TRUE(status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(350));  // a wait of 100 ms may be too long to start
}

TEST(ServersTest, ANameIsLookedUpAndTheErrorSaysWhichOfItsServersItWas) {
  FakeServer server;
  const std::string port = server.address().substr(server.address().rfind(':'));
  const auto client = ClientOf({.target = "dns:///localhost" + port});
  EXPECT_EQ(client->Softmax(Small().view()).status(), absl::OkStatus());
  const Sample refused = MakeSample(DataType::kFloat32, {1, 13}, 1);
  EXPECT_THAT(std::string(client->Softmax(refused.view()).status().message()),
              HasSubstr("dns:///localhost" + port + " (ipv4:127.0.0.1" + port + "): input.shape"));
}

TEST(ServersTest, SocketsAndPortsMixInOneTarget) {
  FakeServer a("unix:" + ::testing::TempDir() + "servers_test_a.sock");
  FakeServer b;
  const auto client = ClientOf({.target = a.address() + "," + b.address()});
  EXPECT_TRUE(CallUntil(*client, [&] { return a.requests() > 3 && b.requests() > 3; }));
}

}  // namespace
}  // namespace softmax::client
