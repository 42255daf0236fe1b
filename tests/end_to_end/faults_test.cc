// Devices that fail, hang or are late: what callers see, and how the process ends.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

struct Counts {
  std::atomic<int> right{0}, internal{0}, unavailable{0}, other{0}, wrong{0};
};

// Callers that go on until the server has ended; each call ends with an answer or a status that says what to do.
void CallUntilTheEnd(ServerProcess& server, Counts* counts) {
  std::atomic<bool> stop{false};
  std::vector<std::jthread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      client::ClientOptions options;
      options.target = server.target();
      options.retry.max_attempts = 1;
      const auto client = std::move(*client::Client::Create(options));
      const Question question = MakeQuestion({10 + t, 200}, static_cast<std::uint64_t>(t));
      while (!stop) {
        const auto answer = client->Softmax(question.view(), question.options());
        if (answer.ok()) {
          ++(JudgeAnswer(question, answer->data()).ok ? counts->right : counts->wrong);
        } else if (answer.status().code() == absl::StatusCode::kInternal) {
          ++counts->internal;
        } else if (absl::IsUnavailable(answer.status())) {
          ++counts->unavailable;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        } else {
          ++counts->other;
          ADD_FAILURE() << answer.status();
        }
      }
    });
  }
  EXPECT_EQ(server.Wait(30000), 70) << server.Log();
  stop = true;
}

std::vector<std::string> With(const std::string& fault) {
  return {"--unsafe-testing", "--fault=" + fault, "--device-timeout=1s", "--drain-delay=300ms", "--drain-timeout=5s"};
}

TEST(Faults, ADeviceThatFailsEndsTheProcessWith70) {
  ServerProcess server(With("error:50"));
  ASSERT_FALSE(server.target().empty()) << server.Log();
  Counts counts;
  CallUntilTheEnd(server, &counts);
  EXPECT_GT(counts.right, 0);
  EXPECT_GT(counts.internal, 0);
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_THAT(server.Log(), HasSubstr("a device failed: fault: a launch failed"));
}

TEST(Faults, ADeviceThatHangsIsGivenUpAndEndsTheProcessWith70) {
  ServerProcess server(With("hang:50"));
  ASSERT_FALSE(server.target().empty()) << server.Log();
  Counts counts;
  const auto begin = Clock::now();
  CallUntilTheEnd(server, &counts);
  EXPECT_GT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_GT(counts.right, 0);
  EXPECT_GT(counts.internal, 0);
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_THAT(server.Log(), HasSubstr("a device failed: a device hangs"));
}

TEST(Faults, ALateDeviceIsWaitedFor) {
  ServerProcess server(With("late:50ms"));
  ASSERT_FALSE(server.target().empty()) << server.Log();
  client::ClientOptions options;
  options.target = server.target();
  const auto client = std::move(*client::Client::Create(options));
  const Question question = MakeQuestion({10, 200}, 1);
  for (int i = 0; i < 10; ++i) {
    const auto begin = Clock::now();
    const auto answer = client->Softmax(question.view(), question.options());
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(JudgeAnswer(question, answer->data()).ok);
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(50));
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(15000), 0);
}

TEST(Faults, NeedUnsafeTesting) {
  ServerProcess server({"--fault=hang:1"});
  EXPECT_EQ(server.Wait(5000), 2);
  EXPECT_THAT(server.Log(), HasSubstr("--fault=hang:1"));
  for (const char* bad : {"hang", "hang:0", "late:", "explode:1"}) {
    ServerProcess wrong({"--unsafe-testing", std::string("--fault=") + bad});
    EXPECT_EQ(wrong.Wait(5000), 2);
    EXPECT_THAT(wrong.Log(), HasSubstr(std::string("--fault=") + bad));
  }
}

}  // namespace
}  // namespace softmax::testing
