// Right answers through the whole server: client, wire, batches, kernels and back.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/service.h"
#include "tests/support/environment.h"
#include "tests/support/kernel_cases.h"

namespace softmax::testing {
namespace {

void ExpectRight(client::Client& client, const Question& question) {
  const absl::StatusOr<client::Tensor> answer = client.Softmax(question.view(), question.options());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->shape(), question.shape);
  const kernels::Judgement judgement = JudgeAnswer(question, answer->data());
  EXPECT_TRUE(judgement.ok) << judgement.message;
}

TEST(TestSwitches, AreOffWhereTheirVariableIsZeroOrEmpty) {
  for (const auto& [value, is_on] : {std::pair("1", true), std::pair("0", false), std::pair("", false)}) {
    setenv("SOFTMAX_TEST_SWITCH", value, /*overwrite=*/1);
    EXPECT_EQ(IsOn("SOFTMAX_TEST_SWITCH"), is_on) << value;
  }
  unsetenv("SOFTMAX_TEST_SWITCH");
  EXPECT_FALSE(IsOn("SOFTMAX_TEST_SWITCH"));
}

TEST(Answers, RandomTensorsOfEveryTypeShapeAndAxis) {
  Service service;
  const auto client = service.NewClient();
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    ExpectRight(*client, RandomQuestion(seed, 20000));
  }
}

TEST(Answers, VeryLongRowsAndALongMiddleAxis) {
  Service service([](server::Config& config) {
    config.arena_bytes = 256 << 20;
    config.max_request_bytes = config.max_response_bytes = 64 << 20;
  });
  client::ClientOptions options;
  options.deadline = std::chrono::minutes(2);
  const auto client = service.NewClient(options);
  ExpectRight(*client, MakeQuestion({1 << 20}, 1, kernels::DataType::kFloat64));
  ExpectRight(*client, MakeQuestion({2, 8 << 20}, 2, kernels::DataType::kBFloat16));
  ExpectRight(*client, MakeQuestion({1, 8 << 20}, 2));
  Question question = MakeQuestion({3, 70000, 64}, 3);
  question.axis = 1;
  ExpectRight(*client, question);
}

TEST(Answers, TheWholeMessageLimitIsUsable) {
  Service service;
  ExpectRight(*service.NewClient(), MakeQuestion({4, 1 << 20}, 4));  // exactly 16 MiB
}

TEST(Answers, EmptyTensorsAreAnsweredEmpty) {
  Service service;
  const auto client = service.NewClient();
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{0}, {0, 5}, {5, 0}, {2, 0, 3}}) {
    const Question question = MakeQuestion(shape, 1);
    const auto answer = client->Softmax(question.view(), question.options());
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->shape(), shape);
    EXPECT_EQ(answer->data().size(), 0u);
  }
}

// A request's bits are the same alone and amid random company.
TEST(Answers, SameBitsAloneAndInCompany) {
  Service service;
  const auto quiet = service.NewClient();
  std::vector<Question> questions;
  std::vector<std::vector<std::byte>> alone;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    questions.push_back(RandomQuestion(1000 + seed, 3000));
    const auto answer = quiet->Softmax(questions.back().view(), questions.back().options());
    ASSERT_TRUE(answer.ok()) << answer.status();
    alone.emplace_back(answer->data().begin(), answer->data().end());
  }
  std::atomic<int> different{0};
  std::atomic<std::uint64_t> company{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto client = service.NewClient();
      Random random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < 150; ++i) {
        const auto pick = static_cast<std::size_t>(random.Below(40));
        const auto answer = client->Softmax(questions[pick].view(), questions[pick].options());
        if (!answer.ok() || answer->data().size() != alone[pick].size() ||
            std::memcmp(answer->data().data(), alone[pick].data(), alone[pick].size()) != 0) {
          ++different;
        } else {
          company += answer->timing().batch_rows;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(different, 0);
}

TEST(Answers, SixteenCallersOfTheLargestRequestWithRoomForTwo) {
  Service service([](server::Config& config) {
    config.arena_bytes = 32 << 20;  // two of 16 MiB
  });
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      client::ClientOptions options;
      options.deadline = std::chrono::minutes(2);
      const auto client = service.NewClient(options);
      const Question question = MakeQuestion({1 << 10, 4 << 10}, static_cast<std::uint64_t>(t));
      const auto answer = client->Softmax(question.view(), question.options());
      if (!answer.ok()) {
        ADD_FAILURE() << "caller " << t << ": " << answer.status();
        return;
      }
      const kernels::Judgement judgement = JudgeAnswer(question, answer->data());
      if (!judgement.ok) ADD_FAILURE() << "caller " << t << ": " << judgement.message;
      ++right;
    });
  }
  threads.clear();
  EXPECT_EQ(right, 16);
}

TEST(Answers, StreamsAnswerEveryRequestWithItsId) {
  Service service;
  const auto client = service.NewClient();
  std::vector<Question> questions;
  for (std::uint64_t id = 0; id < 300; ++id) questions.push_back(RandomQuestion(id, 4000));
  questions[17].scale = -1;  // one bad request does not end the stream
  std::vector<int> answered(300);
  int right = 0;
  client::StreamOptions stream_options;
  stream_options.max_in_flight = 300;
  auto stream = client->OpenStream(stream_options, [&](std::uint64_t id, absl::StatusOr<client::Tensor> answer) {
    ++answered[id];
    EXPECT_TRUE(answer.ok()) << id << ": " << answer.status();
    if (!answer.ok()) return;
    const kernels::Judgement judgement = JudgeAnswer(questions[id], answer->data());
    EXPECT_TRUE(judgement.ok) << id << ": " << judgement.message;
    right += judgement.ok;
  });
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (std::uint64_t id = 0; id < 300; ++id) {
    const absl::Status sent = (*stream)->Send(id, questions[id].view(), questions[id].options());
    EXPECT_EQ(sent.ok(), id != 17) << sent;  // this client sees the bad scale itself
  }
  EXPECT_TRUE((*stream)->Finish().ok());
  EXPECT_EQ(right, 299);
  for (std::uint64_t id = 0; id < 300; ++id) EXPECT_EQ(answered[id], id == 17 ? 0 : 1) << id;
}

// What came in one message is one batch, whose answers are ready at once.
TEST(Answers, AStreamsAnswersThatAreReadyTogetherLeaveInOneMessage) {
  Service service;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stream = v1::SoftmaxService::NewStub(service.NewChannel())->SoftmaxStream(&context);
  constexpr int kRequests = 16;
  v1::SoftmaxStreamRequest message;
  std::vector<Question> questions;
  for (int i = 0; i < kRequests; ++i) {
    const Question& question = questions.emplace_back(MakeQuestion({64}, static_cast<std::uint64_t>(i)));
    *message.add_requests() = NativeRequestOf(question, static_cast<std::uint64_t>(i));
  }
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(stream->Write(message));
    v1::SoftmaxStreamResponse answers;
    ASSERT_TRUE(stream->Read(&answers));
    EXPECT_EQ(answers.responses_size(), kRequests);
    for (const v1::SoftmaxResponse& answer : answers.responses()) {
      EXPECT_EQ(answer.status().code(), 0);
      const std::string& data = answer.output().data();
      const kernels::Judgement judgement =
          JudgeAnswer(questions.at(answer.id()), std::as_bytes(std::span(data.data(), data.size())));
      EXPECT_TRUE(judgement.ok) << answer.id() << ": " << judgement.message;
    }
  }
  stream->WritesDone();
  v1::SoftmaxStreamResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace softmax::testing
