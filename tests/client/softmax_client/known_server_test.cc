#include "client/softmax_client/known_server.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace softmax::client {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

const KnownServer::Clock::time_point kNow{hours(1)};

// A view of that size over nothing: only its size is looked at.
TensorView ViewOfBytes(std::size_t bytes, DataType dtype = DataType::kFloat32) {
  static const std::vector<std::byte> memory(8 << 20);
  return {dtype, {}, std::span(memory).first(bytes)};
}

ServerInfo Info() {
  ServerInfo info;
  info.dtypes = {DataType::kFloat32, DataType::kFloat16};
  info.operations = {Operation::kSoftmax};
  info.limits.max_request_bytes = 1000;
  info.limits.max_response_bytes = 500;
  return info;
}

TEST(KnownServerTest, OnlyLargeTensorsAreWorthAQuestion) {
  KnownServer server;
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(1 << 20), {}, kNow), absl::OkStatus());
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(2 << 20), {}, kNow), std::nullopt);
  // The answer is twice as large.
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(1 << 20), {.output_dtype = DataType::kFloat64}, kNow), std::nullopt);
  server.CannotTell();
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(2 << 20), {}, kNow), absl::OkStatus());
}

TEST(KnownServerTest, WhatTheServerDoesNotTakeHasItsCodeAndItsName) {
  KnownServer server;
  server.Learn("a:1", Info(), kNow);
  const auto judged = [&](std::size_t bytes, DataType dtype, const SoftmaxOptions& options) {
    return server.CheckLimits(ViewOfBytes(bytes, dtype), options, kNow).value_or(absl::UnknownError("asks"));
  };
  EXPECT_EQ(judged(500, DataType::kFloat32, {}), absl::OkStatus());
  EXPECT_EQ(judged(1004, DataType::kFloat32, {.output_dtype = DataType::kFloat16}),
            absl::InvalidArgumentError("a:1: data: 1004 bytes, above the server's max_request_bytes of 1000"));
  EXPECT_EQ(judged(504, DataType::kFloat32, {}),
            absl::InvalidArgumentError("a:1: output_dtype: the answer: 504 bytes, above the server's "
                                       "max_response_bytes of 500"));
  EXPECT_EQ(judged(8, DataType::kFloat64, {}),
            absl::InvalidArgumentError("a:1: input.dtype: the server does not have float64"));
  EXPECT_EQ(judged(8, DataType::kFloat32, {.output_dtype = DataType::kBFloat16}),
            absl::InvalidArgumentError("a:1: output_dtype: the server does not have bfloat16"));
  EXPECT_EQ(judged(8, DataType::kFloat32, {.operation = Operation::kLogSoftmax}),
            absl::InvalidArgumentError("a:1: operation: the server does not have log_softmax"));
}

TEST(KnownServerTest, NothingIsRefusedForWhatWasLearntLongAgo) {
  KnownServer server;
  server.Learn("a:1", Info(), kNow);
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(2000), {}, kNow + seconds(11)), std::nullopt);
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(200), {}, kNow + hours(1)), absl::OkStatus());
}

TEST(KnownServerTest, LimitsThatAreNotGivenDoNotLimit) {
  KnownServer server;
  server.Learn("a:1", ServerInfo(), kNow);
  EXPECT_EQ(server.CheckLimits(ViewOfBytes(8 << 20), {}, kNow), absl::OkStatus());
}

TEST(KnownServerTest, ManyThreadsMayLearnAndJudge) {
  KnownServer server;
  std::vector<std::thread> threads;
  std::array<int, 4> fine = {};
  for (std::size_t t = 0; t < fine.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        server.Learn("a:1", Info(), kNow);
        if (server.CheckLimits(ViewOfBytes(400), {}, kNow) == absl::OkStatus()) ++fine[t];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : fine) EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace softmax::client
