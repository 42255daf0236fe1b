#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/c/softmax.h"
#include "tests/client/support/fake_server.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

// The client library as other languages have it.
namespace softmax::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TakeMessage(softmax_error* error) {
  const std::string message = error == nullptr ? "" : softmax_error_message(error);
  softmax_error_free(error);
  return message;
}

class CTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kShape[] = {2, 4};

  softmax_client* NewClient(const std::string& target) {
    softmax_client_options options;
    softmax_client_options_init(&options);
    options.target = target.c_str();
    options.max_attempts = 1;
    softmax_client* client = nullptr;
    EXPECT_EQ(softmax_client_new(&options, &client, nullptr), 0);
    return client;
  }
  void SetUp() override {
    request_.size = sizeof request_;
    request_.dtype = SOFTMAX_FLOAT32;
    request_.rank = 2;
    request_.shape = kShape;
    request_.operation = SOFTMAX_SOFTMAX;
    request_.axis = -1;
    client_ = NewClient(server_.address());
  }
  void TearDown() override { softmax_client_free(client_); }

  void ExpectRight(const std::vector<float>& output) {
    for (int row = 0; row < 2; ++row) {
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += std::exp(input_[row * 4 + i]);
      for (int i = 0; i < 4; ++i) EXPECT_NEAR(output[row * 4 + i], std::exp(input_[row * 4 + i]) / sum, 1e-6);
    }
  }
  // The code and the words of a call.
  std::pair<std::int32_t, std::string> Run() {
    softmax_error* error = nullptr;
    const std::int32_t code = softmax_run(client_, &request_, input_.data(), output_.data(), nullptr, nullptr, &error);
    return {code, TakeMessage(error)};
  }

  FakeServer server_;
  softmax_client* client_ = nullptr;
  softmax_request request_ = {};
  softmax_stream_options stream_options_{
      .size = sizeof stream_options_, .max_in_flight = 16, .max_requests_per_message = 1};
  const std::vector<float> input_ = {1, 2, 3, 4, 0, 0, -5, 2};
  std::vector<float> output_ = std::vector<float>(8);
};

TEST_F(CTest, BlockingCallsBatchesAndQueuesAnswerAlike) {
  EXPECT_EQ(Run().first, 0);
  ExpectRight(output_);

  const softmax_request* const requests[] = {&request_, &request_};
  const void* const inputs[] = {input_.data(), input_.data()};
  std::vector<float> first(8), second(8);
  void* const outputs[] = {first.data(), second.data()};
  softmax_error* errors[2];
  ASSERT_EQ(
      softmax_run_batch(client_, &stream_options_, requests, inputs, outputs, 2, errors, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(errors[0], nullptr);
  EXPECT_EQ(errors[1], nullptr);
  ExpectRight(first);
  ExpectRight(second);

  softmax_queue* const queue = softmax_queue_new();
  std::vector<float> third(8);
  ASSERT_EQ(softmax_start(client_, &request_, input_.data(), third.data(), queue, 7, nullptr), 0);
  pollfd readable{softmax_queue_fd(queue), POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 10000), 1);
  softmax_event events[4];
  ASSERT_EQ(softmax_queue_take(queue, events, 4, 0), 1u);
  EXPECT_EQ(events[0].tag, 7u);
  EXPECT_EQ(events[0].error, nullptr);
  ExpectRight(third);
  EXPECT_EQ(softmax_queue_take(queue, events, 4, 0), 0u);
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  softmax_queue_free(queue);
}

TEST_F(CTest, StreamsAnswerByTheirIdsAndSayWhenThereIsNoRoom) {
  server_.behavior().delay_ms = 100;
  softmax_queue* const queue = softmax_queue_new();
  softmax_stream* stream = nullptr;
  stream_options_.max_in_flight = 2;
  ASSERT_EQ(softmax_stream_open(client_, &stream_options_, queue, &stream, nullptr), 0);
  std::vector<std::vector<float>> outputs(2, std::vector<float>(8));
  for (std::uint64_t id = 0; id < 2; ++id) {
    ASSERT_EQ(softmax_stream_send(stream, id, &request_, input_.data(), outputs[id].data(), 0, nullptr), 0);
  }
  EXPECT_EQ(softmax_stream_send(stream, 2, &request_, input_.data(), output_.data(), 0, nullptr), SOFTMAX_NO_ROOM);
  EXPECT_EQ(softmax_stream_unanswered(stream), 2u);
  EXPECT_EQ(softmax_stream_finish(stream, nullptr, nullptr, nullptr), 0);
  EXPECT_TRUE(softmax::testing::Eventually([stream] { return softmax_stream_unanswered(stream) == 0; }));
  softmax_event events[4];
  EXPECT_EQ(softmax_queue_take(queue, events, 4, 0), 2u);
  EXPECT_EQ(events[0].tag + events[1].tag, 1u);
  for (const auto& output : outputs) ExpectRight(output);
  softmax_stream_free(stream);
  softmax_queue_free(queue);
}

TEST_F(CTest, WrongArgumentsAreNamed) {
  const struct {
    const char* words;
    void (*change)(softmax_request*);
  } kWrong[] = {
      {"dtype: 9", [](softmax_request* r) { r->dtype = 9; }},
      {"output_dtype: -1", [](softmax_request* r) { r->output_dtype = -1; }},
      {"rank: 9", [](softmax_request* r) { r->rank = 9; }},
      {"rank: 2", [](softmax_request* r) { r->shape = nullptr; }},
      {"operation: 0", [](softmax_request* r) { r->operation = 0; }},
      {"axis", [](softmax_request* r) { r->axis = 2; }},
      {"lengths", [](softmax_request* r) { r->lengths_count = 2; }},
      {"indices", [](softmax_request* r) { r->indices_count = 2; }},
      {"trace.traceparent", [](softmax_request* r) { r->traceparent = "00-0-0-00"; }},
  };
  for (const auto& wrong : kWrong) {
    const softmax_request right = request_;
    wrong.change(&request_);
    const auto [code, words] = Run();
    EXPECT_EQ(code, 3) << wrong.words;
    EXPECT_THAT(words, HasSubstr(wrong.words));
    request_ = right;
  }
  softmax_error* error = nullptr;
  EXPECT_EQ(softmax_run(client_, &request_, nullptr, output_.data(), nullptr, nullptr, &error), 3);
  EXPECT_THAT(TakeMessage(error), HasSubstr("input"));
  EXPECT_EQ(softmax_run(client_, &request_, input_.data(), nullptr, nullptr, nullptr, &error), 3);
  EXPECT_THAT(TakeMessage(error), HasSubstr("output"));

  softmax_queue* const queue = softmax_queue_new();
  softmax_stream* stream = nullptr;
  stream_options_.traceparent = "00-0-0-00";
  EXPECT_EQ(softmax_stream_open(client_, &stream_options_, queue, &stream, &error), 3);
  EXPECT_THAT(TakeMessage(error), HasSubstr("trace.traceparent"));
  const softmax_request* const requests[] = {&request_};
  const void* const inputs[] = {input_.data()};
  void* const outputs[] = {output_.data()};
  softmax_error* item = nullptr;
  EXPECT_EQ(softmax_run_batch(client_, &stream_options_, requests, inputs, outputs, 1, &item, nullptr, nullptr, &error),
            0);
  EXPECT_THAT(TakeMessage(item), HasSubstr("trace.traceparent"));
  softmax_queue_free(queue);
  EXPECT_EQ(server_.requests(), 0);

  softmax_client_options options;
  softmax_client_options_init(&options);
  options.connections = -1;
  softmax_client* client = nullptr;
  EXPECT_EQ(softmax_client_new(&options, &client, &error), 3);
  EXPECT_THAT(TakeMessage(error), HasSubstr("connections"));
}

TEST_F(CTest, ErrorsHaveCodeWordsAndTheTimeToAskAgain) {
  server_.behavior().refuse = true;
  softmax_error* error = nullptr;
  ASSERT_EQ(softmax_run(client_, &request_, input_.data(), output_.data(), nullptr, nullptr, &error), 8);
  EXPECT_EQ(softmax_error_code(error), 8);
  EXPECT_EQ(softmax_error_retry_after_ms(error), -1);
  softmax_error_free(error);
  softmax_error_free(nullptr);
  server_.behavior().refuse = false;
  server_.behavior().fail_code = 8;
  server_.behavior().pushback_ms = 1234;
  server_.behavior().fail_next = 1;
  ASSERT_EQ(softmax_run(client_, &request_, input_.data(), output_.data(), nullptr, nullptr, &error), 8);
  EXPECT_EQ(softmax_error_retry_after_ms(error), 1234);
  softmax_error_free(error);
}

TEST_F(CTest, AHookAQueueAndTheEndOfTheClientCancel) {
  server_.behavior().delay_ms = 20000;
  softmax_error* error = nullptr;
  const auto stop = [](void*) -> std::int32_t { return 1; };
  EXPECT_EQ(softmax_run(client_, &request_, input_.data(), output_.data(), stop, nullptr, &error), 1);
  softmax_error_free(error);

  softmax_queue* const queue = softmax_queue_new();
  softmax_event event;
  for (const bool by_tag : {true, false}) {
    ASSERT_EQ(softmax_start(client_, &request_, input_.data(), output_.data(), queue, 1, nullptr), 0);
    by_tag ? softmax_cancel(queue, 1) : softmax_client_close(client_);
    ASSERT_EQ(softmax_queue_take(queue, &event, 1, 10'000'000'000), 1u);
    EXPECT_EQ(softmax_error_code(event.error), 1);
    softmax_error_free(event.error);
  }
  EXPECT_EQ(Run(), std::pair(9, std::string("the client is closed")));
  softmax_queue_free(queue);
}

TEST_F(CTest, ThreadsShareAClientThatAnotherCloses) {
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<float> output(8);
      for (;;) {
        const std::int32_t code =
            softmax_run(client_, &request_, input_.data(), output.data(), nullptr, nullptr, nullptr);
        if (code != 0) {
          EXPECT_TRUE(code == 1 || code == 9) << code;
          break;
        }
      }
      ++ended;
    });
  }
  EXPECT_TRUE(softmax::testing::Eventually([this] { return server_.requests() > 20; }));
  softmax_client_close(client_);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 4);
}

TEST_F(CTest, TenThousandRandomCallsAreRightOrNamed) {
  std::mt19937 random(1);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  int right = 0;
  for (int i = 0; i < 10000; ++i) {
    softmax_request request = request_;
    if (draw(0, 3) == 0) request.axis = draw(-4, 4);
    if (draw(0, 9) == 0) request.dtype = draw(-1, 6);
    if (draw(0, 9) == 0) request.rank = draw(-1, 2);
    if (draw(0, 9) == 0) request.operation = draw(-1, 3);
    if (draw(0, 9) == 0) request.timeout_ns = draw(-5, 1000);
    // Room for the largest type.
    std::vector<double> input(8), output(8);
    softmax_error* error = nullptr;
    const std::int32_t code = softmax_run(client_, &request, input.data(), output.data(), nullptr, nullptr, &error);
    EXPECT_EQ(code != 0, error != nullptr);
    EXPECT_NE(code == 0, !TakeMessage(error).empty());
    right += code == 0 ? 1 : 0;
  }
  EXPECT_GT(right, 3000);
}

TEST_F(CTest, PartsOfASummaryBeginAtMultiplesOf8) {
  const std::int32_t indices[] = {1};
  request_.dtype = SOFTMAX_FLOAT16;
  request_.top_k = 3;
  request_.indices = indices;
  request_.indices_count = 1;
  request_.entropy = 1;
  std::uint64_t offsets[6];
  std::uint64_t sizes[6];
  EXPECT_EQ(softmax_summary_layout(&request_, offsets, sizes), 56u);
  EXPECT_THAT(sizes, ElementsAre(12, 24, 2, 0, 0, 8));
  EXPECT_THAT(offsets, ElementsAre(0, 16, 40, 48, 48, 48));
  request_.axis = 2;
  EXPECT_EQ(softmax_summary_layout(&request_, nullptr, nullptr), 0u);
}

// What a program that was compiled before hands in ends earlier.
TEST_F(CTest, AnOlderProgramsStructuresAreTaken) {
  request_.size = offsetof(softmax_request, top_k);
  request_.top_k = 0xffffffff;  // beyond its end
  EXPECT_EQ(Run().first, 0);
  ExpectRight(output_);
}

// Programs are linked with these numbers: later versions may only add at the end.
TEST(Abi, StructuresAreWhereTheyWere) {
  EXPECT_EQ(offsetof(softmax_request, shape), 16u);
  EXPECT_EQ(offsetof(softmax_request, scale), 40u);
  EXPECT_EQ(offsetof(softmax_request, lengths), 56u);
  EXPECT_EQ(offsetof(softmax_request, timeout_ns), 72u);
  EXPECT_EQ(offsetof(softmax_request, indices), 88u);
  EXPECT_EQ(offsetof(softmax_request, entropy), 108u);
  EXPECT_EQ(offsetof(softmax_request, traceparent), 112u);
  EXPECT_GE(sizeof(softmax_request), 128u);
  EXPECT_EQ(offsetof(softmax_stream_options, timeout_ns), 24u);
  EXPECT_EQ(offsetof(softmax_stream_options, tracestate), 40u);
  EXPECT_GE(sizeof(softmax_stream_options), 48u);
  EXPECT_EQ(sizeof(softmax_event), 24u);
  EXPECT_EQ(offsetof(softmax_client_options, connections), 32u);
  EXPECT_EQ(offsetof(softmax_client_options, authority), 64u);
  EXPECT_EQ(offsetof(softmax_client_options, use_tls), 96u);
  EXPECT_EQ(offsetof(softmax_client_options, max_attempts), 128u);
  EXPECT_EQ(offsetof(softmax_client_options, token_ratio), 168u);
  EXPECT_GE(sizeof(softmax_client_options), 176u);
}

// Whatever the first release had is there, and nothing else can be seen.
TEST(Abi, SymbolsAreThoseOfTheHeader) {
  const ProgramResult told = RunProgram(
      "/bin/sh", {"-c", "nm -D --defined-only " SOFTMAX_LIBRARY
                        " | sed -n 's/.* softmax_\\(.*\\)@@SOFTMAX_1$/\\1/p; t; s/.* / other: /p' | paste -sd ' '"});
  EXPECT_EQ(told.out,
            " other: SOFTMAX_1 "
            "cancel client_close client_free client_new client_options_init error_code error_free "
            "error_message error_retry_after_ms free in_region queue_fd queue_free queue_new queue_take "
            "region_allocate region_cuda_device region_data region_free region_read region_size region_write "
            "run run_batch server_info start stats stream_cancel stream_close stream_finish stream_free "
            "stream_open stream_send stream_unanswered summary_layout wait_for_connection"
            "\n");
}

}  // namespace
}  // namespace softmax::client
