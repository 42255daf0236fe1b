#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"

namespace softmax::client {
namespace {

constexpr int kThreads = 64;

// 10000 is the full run; sanitizers and busy machines take fewer.
int CallsPerThread() {
  const char* const text = std::getenv("SOFTMAX_TEST_CALLS");
  return text == nullptr ? 100 : std::atoi(text);
}

// The sum of every row of every answer is 1, and the first element tells the call's own input from every other's.
std::string CheckLimits(float first, const absl::StatusOr<Tensor>& answer) {
  if (!answer.ok()) return answer.status().ToString();
  const auto values = answer->values<float>();
  if (values.size() != 16) return "another size";
  double sum = 0;
  for (const float value : values) sum += value;
  if (std::abs(sum - 1) > 1e-5) return "sum " + std::to_string(sum);
  const double expected = std::exp(static_cast<double>(first)) / (std::exp(static_cast<double>(first)) + 15);
  if (std::abs(values[0] - expected) > 1e-5) return "another call's answer";
  return "";
}

TEST(ThreadsTest, SixtyFourThreadsShareOneClient) {
  const int calls = CallsPerThread();
  FakeServer server("unix:" + ::testing::TempDir() + "threads_test.sock");
  const auto client =
      *Client::Create({.target = server.address(), .deadline = std::chrono::minutes(10), .connections = 4});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::int64_t> shape = {1, 16};
      std::vector<float> values(16);
      for (int i = 0; i < calls; ++i) {
        values[0] = static_cast<float>((t * 31 + i) % 97) / 16;
        const TensorView view = ViewOf(values, shape);
        const auto answer = i % 2 == 0 ? client->Softmax(view) : client->SoftmaxFuture(view).get();
        const std::string wrong = CheckLimits(values[0], answer);
        if (wrong.empty()) {
          ++right;
        } else {
          ADD_FAILURE() << wrong;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * calls);
  const ClientStats stats = client->Stats();
  EXPECT_EQ(stats.calls, static_cast<std::uint64_t>(kThreads) * static_cast<std::uint64_t>(calls));
  EXPECT_EQ(stats.calls_by_code[0], stats.calls);
  EXPECT_EQ(stats.attempts, stats.calls + stats.retries);
}

}  // namespace
}  // namespace softmax::client
