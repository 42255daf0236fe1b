#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/fake_server.h"

namespace softmax::client {
namespace {

// Answers by id, as they came, counted.
struct Answers {
  std::mutex mu;
  std::condition_variable changed;
  std::vector<int> count;
  std::vector<absl::Status> status;
  std::vector<std::vector<float>> values;
  std::size_t total = 0;

  explicit Answers(std::size_t size) : count(size), status(size), values(size) {}

  StreamCallback Callback() {
    return [this](std::uint64_t id, absl::StatusOr<Tensor> answer) {
      std::lock_guard lock(mu);
      ++count[id];
      status[id] = answer.status();
      if (answer.ok()) values[id].assign(answer->values<float>().begin(), answer->values<float>().end());
      ++total;
      changed.notify_all();
    };
  }
  void WaitFor(std::size_t n) {
    std::unique_lock lock(mu);
    changed.wait(lock, [&] { return total >= n; });
  }
};

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() : client_(*Client::Create({.target = server_.address()})) {}

  // Sends [1, 0, 0, ...] so that the answer tells `columns` apart: its second element is 1 / (e +
  // columns - 1).
  absl::Status Send(Stream& stream, std::uint64_t id, std::size_t columns) {
    std::lock_guard lock(mu_);
    auto& input = inputs_.emplace_back(new Input);
    input->values.assign(columns, 0.f);
    input->values[0] = 1;
    input->shape = {1, static_cast<std::int64_t>(columns)};
    return stream.Send(id, ViewOf(input->values, input->shape));
  }

  static float SecondOf(std::size_t columns) {
    return static_cast<float>(1.0 / (2.718281828459045 + static_cast<double>(columns) - 1));
  }

  struct Input {
    std::vector<float> values;
    std::vector<std::int64_t> shape;
  };
  FakeServer server_;
  std::unique_ptr<Client> client_;
  std::mutex mu_;
  std::vector<std::unique_ptr<Input>> inputs_;
};

TEST_F(StreamTest, EveryRequestGetsItsOwnAnswerOnce) {
  constexpr std::size_t kRequests = 500;
  Answers answers(kRequests);
  auto stream = client_->OpenStream({.max_in_flight = kRequests}, answers.Callback());
  ASSERT_TRUE(stream.ok());
  for (std::size_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(Send(**stream, i, 20 + i * 17 % 9000).ok());  // some beyond the size that is copied
  }
  EXPECT_TRUE((*stream)->Finish().ok());
  for (std::size_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(answers.count[i], 1) << i;
    ASSERT_TRUE(answers.status[i].ok()) << answers.status[i];
    ASSERT_EQ(answers.values[i].size(), 20 + i * 17 % 9000);
    EXPECT_FLOAT_EQ(answers.values[i][1], SecondOf(20 + i * 17 % 9000));
  }
  EXPECT_GT(server_.largest_message(), 1);  // what waited was sent together
  EXPECT_LE(server_.largest_message(), 64);
}

TEST_F(StreamTest, ABadRequestGetsItsStatusAndTheStreamGoesOn) {
  Answers answers(3);
  auto stream = client_->OpenStream({}, answers.Callback());
  ASSERT_TRUE(Send(**stream, 0, 5).ok());
  ASSERT_TRUE(Send(**stream, 1, 13).ok());
  answers.WaitFor(2);
  ASSERT_TRUE(Send(**stream, 2, 6).ok());
  EXPECT_TRUE((*stream)->Finish().ok());
  EXPECT_TRUE(answers.status[0].ok());
  EXPECT_EQ(answers.status[1].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answers.status[1].message(), server_.address() + ": input.shape: dimension 13 is not allowed here");
  EXPECT_TRUE(answers.status[2].ok());
}

TEST_F(StreamTest, RefusesMoreThanItsWindowAndDoubleIds) {
  server_.behavior().delay_ms = 300;
  Answers answers(4);
  auto stream = client_->OpenStream({.max_in_flight = 2}, answers.Callback());
  ASSERT_TRUE(Send(**stream, 0, 5).ok());
  EXPECT_EQ(Send(**stream, 0, 5).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Send(**stream, 1, 5).ok());
  EXPECT_EQ(Send(**stream, 2, 5).code(), absl::StatusCode::kResourceExhausted);
  answers.WaitFor(2);
  EXPECT_TRUE(Send(**stream, 3, 5).ok());
  EXPECT_TRUE((*stream)->Finish().ok());
  EXPECT_EQ(answers.count, (std::vector<int>{1, 1, 0, 1}));
  EXPECT_EQ(Send(**stream, 0, 5).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StreamTest, ABrokenStreamAnswersEveryRequestWithItsStatus) {
  server_.behavior().break_streams = true;
  Answers answers(20);
  auto stream = client_->OpenStream({}, answers.Callback());
  std::size_t taken = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    if (Send(**stream, i, 10000).ok()) ++taken;
  }
  const absl::Status status = (*stream)->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("this stream breaks"));
  EXPECT_EQ(answers.total, taken);
  for (std::size_t i = 0; i < taken; ++i) {
    EXPECT_EQ(answers.count[i], 1);
    EXPECT_EQ(answers.status[i].code(), absl::StatusCode::kAborted);
  }
}

TEST_F(StreamTest, AnUnreachableServerBreaksIt) {
  auto client = Client::Create({.target = "127.0.0.1:1"});
  Answers answers(1);
  auto stream = (*client)->OpenStream({}, answers.Callback());
  ASSERT_TRUE(stream.ok());
  const bool taken = Send(**stream, 0, 5).ok();
  EXPECT_EQ((*stream)->Finish().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(answers.count[0], taken ? 1 : 0);
}

TEST_F(StreamTest, ItsEndCancelsWhatIsUnanswered) {
  server_.behavior().delay_ms = 5000;
  Answers answers(10);
  auto stream = client_->OpenStream({}, answers.Callback());
  for (std::size_t i = 0; i < 10; ++i) ASSERT_TRUE(Send(**stream, i, 10000).ok());
  const auto start = std::chrono::steady_clock::now();
  stream->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  EXPECT_EQ(answers.total, 10u);
  for (const absl::Status& status : answers.status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  }
}

TEST_F(StreamTest, ManyThreadsMaySend) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kEach = 100;
  Answers answers(kThreads * kEach);
  auto stream = client_->OpenStream({.max_in_flight = kThreads * kEach}, answers.Callback());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kEach; ++i) {
        EXPECT_TRUE(Send(**stream, t * kEach + i, 20 + t * kEach + i).ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE((*stream)->Finish().ok());
  for (std::size_t i = 0; i < answers.count.size(); ++i) {
    ASSERT_EQ(answers.count[i], 1) << i;
    EXPECT_FLOAT_EQ(answers.values[i][1], SecondOf(20 + i));
  }
}

}  // namespace
}  // namespace softmax::client
