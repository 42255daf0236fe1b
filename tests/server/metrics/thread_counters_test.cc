#include "server/metrics/thread_counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace softmax::server {
namespace {

using std::chrono::microseconds;

RequestSample Sample(int code, bool ran) {
  RequestSample sample;
  sample.code = code;
  sample.total = microseconds(40);
  sample.queue = microseconds(5);
  sample.batch = microseconds(7);
  sample.ran = ran;
  return sample;
}

BatchSample Batch() {
  BatchSample batch;
  batch.requests = 3;
  batch.rows = 10;
  batch.input_bytes = 100;
  batch.output_bytes = 200;
  batch.reason = CloseReason::kFull;
  batch.execution = microseconds(20);
  return batch;
}

TEST(ThreadCounters, CountsWhatDidNotRunWithoutQueueAndBatchTimes) {
  ThreadCounters shard;
  shard.RequestFinished(Sample(/*code=*/0, /*ran=*/true));
  shard.RequestFinished(Sample(/*code=*/8, /*ran=*/false));
  CounterTotals totals;
  shard.AddTo(&totals);
  EXPECT_EQ(totals.requests[0][0], 1u);
  EXPECT_EQ(totals.requests[0][8], 1u);
  EXPECT_EQ(totals.request_time[0].count(), 2u);
  EXPECT_EQ(totals.queue_time.count(), 1u);
  EXPECT_EQ(totals.batch_wait.count(), 1u);
  EXPECT_EQ(totals.batch_wait.sum, 7000u);
}

TEST(ThreadCounters, TakesACodeThatIsNoneAsUnknown) {
  ThreadCounters shard;
  shard.RequestFinished(Sample(/*code=*/17, /*ran=*/false));
  shard.RequestFinished(Sample(/*code=*/-1, /*ran=*/false));
  CounterTotals totals;
  shard.AddTo(&totals);
  EXPECT_EQ(totals.requests[0][2], 2u);
}

TEST(ThreadCounters, TakesANegativeTimeAsZero) {
  ThreadCounters shard;
  RequestSample sample = Sample(/*code=*/0, /*ran=*/true);
  sample.queue = microseconds(-1);
  shard.RequestFinished(sample);
  CounterTotals totals;
  shard.AddTo(&totals);
  EXPECT_EQ(totals.queue_time.counts[0], 1u);
  EXPECT_EQ(totals.queue_time.sum, 0u);
}

// Every sum there is, in one list.
std::vector<std::uint64_t> Sums(const CounterTotals& totals) {
  std::vector<std::uint64_t> sums;
  const auto append = [&sums](const auto& list) { sums.insert(sums.end(), list.begin(), list.end()); };
  for (const auto& of_method : totals.requests) append(of_method);
  append(totals.batches);
  append(totals.rejected);
  append(totals.answers);
  append(totals.counters);
  for (const auto& times : totals.request_time) sums.push_back(times.sum);
  for (const auto* histogram : {&totals.queue_time, &totals.batch_wait, &totals.execution, &totals.lag}) {
    sums.push_back(histogram->sum);
  }
  sums.insert(sums.end(), {totals.batch_rows.sum, totals.batch_requests.sum, totals.batch_bytes.sum});
  return sums;
}

// Each with numbers that no other has: whatever is left out, or added to another's, is missed.
TEST(ThreadCounters, EveryCountIsItsOwn) {
  ThreadCounters counters;
  const auto records = [](auto& list, std::size_t count, const auto& record) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t times = 0; times <= i; ++times) record(i);
      list[i] += i + 1;
    }
  };
  CounterTotals all;
  for (std::size_t method = 0; method < kMethods; ++method) {
    records(all.requests[method], kCodes, [&](std::size_t code) {
      RequestSample sample;
      sample.method = static_cast<Method>(method);
      sample.code = static_cast<int>(code);
      sample.total = Nanoseconds(1 << method);
      counters.RequestFinished(sample);
      all.request_time[method].sum += 1ull << method;
    });
  }
  records(all.rejected, kRefuseReasons, [&](std::size_t i) { counters.RequestRefused(static_cast<RefuseReason>(i)); });
  records(all.counters, kCounters, [&](std::size_t i) { counters.Add(static_cast<Counter>(i), 1); });
  records(all.batches, kCloseReasons, [&](std::size_t i) {
    BatchSample batch;
    batch.reason = static_cast<CloseReason>(i);
    counters.BatchFinished(batch);
  });
  BatchSample batch;
  batch.answers = {1, 20, 300, 4000, 50000};
  batch.saved_bytes = 7;
  batch.input_bytes = 11;
  batch.output_bytes = 13;
  batch.requests = 17;
  batch.rows = 19;
  batch.execution = Nanoseconds(23);
  counters.BatchFinished(batch);
  ++all.batches[0];
  all.answers = batch.answers;
  all.counters[static_cast<std::size_t>(Counter::kSavedBytes)] += 7;
  all.counters[static_cast<std::size_t>(Counter::kInputBytes)] += 11;
  all.counters[static_cast<std::size_t>(Counter::kOutputBytes)] += 13;
  all.batch_requests.sum = 17;
  all.batch_rows.sum = 19;
  all.batch_bytes.sum = 24;
  all.execution.sum = 23;
  counters.CameLate(Nanoseconds(29));
  all.lag.sum = 29;
  CounterTotals totals;
  counters.AddTo(&totals);
  EXPECT_EQ(Sums(totals), Sums(all));
}

TEST(ThreadCounters, ShardsOfTwoThreadsShareNoCacheLinePair) {
  EXPECT_EQ(alignof(ThreadCounters), 128u);
  EXPECT_EQ(sizeof(ThreadCounters) % 128, 0u);
}

// One pass of a writer: what every total must be a multiple of at the end.
void RecordOnce(ThreadCounters* shard) {
  shard->BatchFinished(Batch());
  shard->Add(Counter::kCopiedIn, 100);
  shard->Add(Counter::kCopiedOut, 1);
  shard->RequestRefused(RefuseReason::kQueueFull);
  shard->RequestFinished(Sample(/*code=*/0, /*ran=*/true));
}

TEST(ThreadCounters, NothingIsLostOrWentBackWhileThreadsRecordAndAnotherReads) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kRounds = 300'000;
  std::vector<std::unique_ptr<ThreadCounters>> all_counters;
  for (int i = 0; i < kThreads; ++i) {
    all_counters.push_back(std::make_unique<ThreadCounters>());
  }
  const auto sum = [&] {
    CounterTotals totals;
    for (const auto& counters : all_counters) {
      counters->AddTo(&totals);
    }
    return totals;
  };
  std::atomic<int> running{kThreads};
  std::vector<std::thread> writers;
  for (const auto& counters : all_counters) {
    writers.emplace_back([&running, counters = counters.get()] {
      for (std::uint64_t i = 0; i < kRounds; ++i) {
        RecordOnce(counters);
      }
      --running;
    });
  }
  std::uint64_t last_count = 0;
  std::uint64_t last_sum = 0;
  do {
    const CounterTotals totals = sum();
    EXPECT_GE(totals.requests[0][0], last_count);
    EXPECT_GE(totals.request_time[0].sum, last_sum);
    last_count = totals.requests[0][0];
    last_sum = totals.request_time[0].sum;
  } while (running > 0);
  for (std::thread& writer : writers) {
    writer.join();
  }
  constexpr std::uint64_t kAll = kThreads * kRounds;
  const CounterTotals totals = sum();
  EXPECT_EQ(totals.requests[0][0], kAll);
  EXPECT_EQ(totals.request_time[0].count(), kAll);
  EXPECT_EQ(totals.request_time[0].sum, kAll * 40'000);
  EXPECT_EQ(totals.batches[static_cast<std::size_t>(CloseReason::kFull)], kAll);
  EXPECT_EQ(totals.batch_rows.sum, kAll * 10);
  EXPECT_EQ(totals.batch_bytes.sum, kAll * 300);
  const auto counted = [&totals](Counter counter) { return totals.counters[static_cast<std::size_t>(counter)]; };
  EXPECT_EQ(counted(Counter::kInputBytes), kAll * 100);
  EXPECT_EQ(counted(Counter::kOutputBytes), kAll * 200);
  EXPECT_EQ(counted(Counter::kCopiedIn), kAll * 100);
  EXPECT_EQ(counted(Counter::kCopiedOut), kAll);
  EXPECT_EQ(totals.rejected[static_cast<std::size_t>(RefuseReason::kQueueFull)], kAll);
}

}  // namespace
}  // namespace softmax::server
