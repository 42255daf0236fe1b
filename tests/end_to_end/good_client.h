#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"

namespace softmax::testing {

// A good client's calls, one after another: none fails, and how long they took.
class GoodClient {
 public:
  explicit GoodClient(const std::string& target, bool may_fail = false)
      : GoodClient(client::ClientOptions{.target = target}, may_fail) {}
  explicit GoodClient(const client::ClientOptions& options, bool may_fail = false)
      : may_fail_(may_fail), thread_([this, options](const std::stop_token& stop) { Run(options, stop); }) {}

  // Whether it comes to have had some answers.
  bool IsUnderWay() const {
    return Eventually([this] { return calls_ > 10; });
  }
  double P99Ms() {
    EXPECT_TRUE(IsUnderWay());
    thread_.request_stop();
    thread_.join();
    EXPECT_GT(ms_.size(), 10u);
    std::sort(ms_.begin(), ms_.end());
    return ms_.empty() ? 0 : ms_[ms_.size() * 99 / 100];
  }

 private:
  void Run(const client::ClientOptions& options, const std::stop_token& stop) {
    const auto client = client::Client::Create(options);
    ASSERT_TRUE(client.ok()) << client.status();
    const Question question = MakeQuestion({2, 100}, 1);
    while (!stop.stop_requested()) {
      const auto began = std::chrono::steady_clock::now();
      const auto answer = (*client)->Softmax(question.view(), question.options());
      ms_.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
      ++calls_;
      EXPECT_TRUE(answer.ok() || may_fail_) << answer.status();
      if (answer.ok()) {
        EXPECT_TRUE(JudgeAnswer(question, answer->data()).ok);
      }
      LetPass(std::chrono::milliseconds(1));  // leaves the server's cores to the others
    }
  }

  const bool may_fail_;
  std::vector<double> ms_;
  std::atomic<int> calls_{0};
  std::jthread thread_;
};

}  // namespace softmax::testing
