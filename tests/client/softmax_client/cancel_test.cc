#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stop_token>
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

// The server would take this long; no test waits for it.
constexpr int kForEverMs = 600000;

class CancelTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect() {
    return *Client::Create({.target = server_.address(), .deadline = std::chrono::minutes(20)});
  }

  // Stops what `call` does once the server has the request, and returns what it came to.
  template <typename Call>
  absl::Status Stopped(Call call) {
    server_.behavior().delay_ms = kForEverMs;
    const int before = server_.requests();
    std::stop_source stop;
    auto status = std::async(std::launch::async, [&] { return call(stop.get_token()); });
    EXPECT_TRUE(testing::Eventually([&] { return server_.requests() > before; }));
    stop.request_stop();
    EXPECT_EQ(status.wait_for(seconds(60)), std::future_status::ready);
    return status.get();
  }

  const Sample small_ = MakeSample(DataType::kFloat32, {1, 16}, 1);
  const Sample large_ = MakeSample(DataType::kFloat32, {100, 1000}, 1);
  FakeServer server_;
};

TEST_F(CancelTest, EveryWayToCallReturnsCancelled) {
  const auto client = Connect();
  for (const Sample* input : {&small_, &large_}) {
    std::vector<std::byte> output(input->data.size());
    const std::vector<absl::Status> stopped = {
        Stopped([&](const std::stop_token& stop) { return client->Softmax(input->view(), {.cancel = stop}).status(); }),
        Stopped(
            [&](const std::stop_token& stop) { return client->SoftmaxInto(input->view(), output, {.cancel = stop}); }),
        Stopped([&](const std::stop_token& stop) {
          return client->SoftmaxFuture(input->view(), {.cancel = stop}).get().status();
        }),
        Stopped([&](const std::stop_token& stop) {
          const BatchItem items[] = {{input->view()}, {input->view()}};
          auto answers = client->SoftmaxBatch(items, {.cancel = stop});
          EXPECT_EQ(answers[1].status().code(), absl::StatusCode::kCancelled);
          return answers[0].status();
        })};
    for (const absl::Status& status : stopped) {
      EXPECT_EQ(status, absl::CancelledError(server_.address() + ": cancelled by the caller"));
    }
  }
  EXPECT_EQ(client->Stats().calls_by_code[1], 10u);
}

TEST_F(CancelTest, ACallIsLeftNowAndThenAndCanBeStoppedThere) {
  const auto client = Connect();
  std::vector<std::byte> output(small_.data.size());
  // In the wait for another attempt, and in the one for an answer.
  for (const bool pausing : {true, false}) {
    server_.behavior().delay_ms = pausing ? 0 : kForEverMs;
    server_.behavior().fail_next = pausing ? 1 : 0;
    server_.behavior().pushback_ms = kForEverMs;
    std::stop_source stop;
    int times = 0;
    const auto caller = std::this_thread::get_id();
    SoftmaxOptions options{.cancel = stop.get_token()};
    options.while_waiting = [&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      if (++times == 3) stop.request_stop();
    };
    EXPECT_EQ(client->SoftmaxInto(small_.view(), output, options).code(), absl::StatusCode::kCancelled);
    EXPECT_GE(times, 3);
  }
  server_.behavior().delay_ms = 0;
  SoftmaxOptions options;
  options.while_waiting = [] {};
  EXPECT_TRUE(client->SoftmaxInto(small_.view(), output, options).ok());
}

TEST_F(CancelTest, AStreamIsCancelledAsAWhole) {
  server_.behavior().delay_ms = kForEverMs;
  const auto client = Connect();
  std::atomic<int> cancelled = 0;
  auto stream = client->OpenStream({}, [&](std::uint64_t, absl::StatusOr<Tensor> answer) {
    cancelled += answer.status().code() == absl::StatusCode::kCancelled ? 1 : 0;
  });
  for (std::uint64_t id = 0; id < 5; ++id) ASSERT_TRUE((*stream)->Send(id, large_.view()).ok());
  (*stream)->Cancel();
  EXPECT_EQ((*stream)->Finish().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cancelled, 5);
}

TEST_F(CancelTest, WhatIsStoppedBeforehandIsNotComputed) {
  server_.behavior().delay_ms = kForEverMs;
  const auto client = Connect();
  std::stop_source stop;
  stop.request_stop();
  const SoftmaxOptions options{.cancel = stop.get_token()};
  EXPECT_EQ(client->Softmax(small_.view(), options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(client->SoftmaxFuture(small_.view(), options).get().status().code(), absl::StatusCode::kCancelled);
  const BatchItem item{small_.view()};
  EXPECT_EQ(client->SoftmaxBatch({&item, 1}, {.cancel = stop.get_token()})[0].status().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(CancelTest, AWaitForAServerIsCancelledToo) {
  const auto client =
      *Client::Create({.target = FreeAddress(), .deadline = std::chrono::minutes(20), .wait_for_ready = true});
  std::stop_source stop;
  std::atomic<bool> waiting = false;
  SoftmaxOptions options{.cancel = stop.get_token()};
  options.while_waiting = [&] { waiting = true; };
  auto async = client->SoftmaxFuture(small_.view(), {.cancel = stop.get_token()});
  auto sync = std::async(std::launch::async, [&] { return client->Softmax(small_.view(), options).status(); });
  EXPECT_TRUE(testing::Eventually([&] { return waiting.load(); }));
  stop.request_stop();
  EXPECT_EQ(sync.get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(async.get().status().code(), absl::StatusCode::kCancelled);
}

// Stops come at every stage of calls that come and go, from several threads.
TEST_F(CancelTest, EveryCancelledCallReturnsOnce) {
  server_.behavior().delay_ms = 1;
  const auto client = Connect();
  constexpr int kThreads = 4;
  constexpr int kCalls = 250;
  std::atomic<int> ended = 0;
  std::atomic<int> strange = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const auto stop = std::make_shared<std::stop_source>();
        const Sample& input = i % 3 == 0 ? large_ : small_;
        const auto count = [&](const absl::Status& status) {
          ++ended;
          if (!status.ok() && status.code() != absl::StatusCode::kCancelled) ++strange;
        };
        std::thread stopper([stop, i, t] {
          testing::LetPass(std::chrono::microseconds((i * 37 + t * 101) % 3000));
          stop->request_stop();
        });
        if (i % 2 == 0) {
          count(client->Softmax(input.view(), {.cancel = stop->get_token()}).status());
        } else {
          client->SoftmaxAsync(input.view(), {.cancel = stop->get_token()},
                               [count](absl::StatusOr<Tensor> answer) { count(answer.status()); });
        }
        stopper.join();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  testing::Eventually([&] { return ended >= kThreads * kCalls; }, seconds(60));
  EXPECT_EQ(ended, kThreads * kCalls);
  EXPECT_EQ(strange, 0);
  const ClientStats stats = client->Stats();
  EXPECT_EQ(stats.calls, static_cast<std::uint64_t>(kThreads * kCalls));
  EXPECT_GT(stats.calls_by_code[1], 0u);  // some were stopped in time
}

// A callback may stop other calls, and its own, which has ended.
TEST_F(CancelTest, ACallbackMayStopOthers) {
  server_.behavior().delay_ms = kForEverMs;
  const auto client = Connect();
  std::stop_source first;
  std::stop_source rest;
  std::atomic<int> cancelled = 0;
  std::promise<void> all;
  const auto count = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    if (++cancelled == 11) all.set_value();
  };
  for (int i = 0; i < 10; ++i) {
    client->SoftmaxAsync(small_.view(), {.cancel = rest.get_token()},
                         [&](absl::StatusOr<Tensor> answer) { count(answer.status()); });
  }
  client->SoftmaxAsync(small_.view(), {.cancel = first.get_token()}, [&](absl::StatusOr<Tensor> answer) {
    first.request_stop();
    rest.request_stop();
    count(answer.status());
  });
  first.request_stop();
  EXPECT_EQ(all.get_future().wait_for(seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace softmax::client
