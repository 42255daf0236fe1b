#include "server/rpc/oip/model_statistics.h"

#include <gtest/gtest.h>

namespace softmax::server {
namespace {

TEST(ModelStatistics, EveryTotalIsItsOwnAndThatOfAllThreads) {
  ModelStatistics statistics;
  const InferModel& model = InferModels()[2];
  const TimePoint now = SteadyClock::now();
  Answer answer;
  answer.ran = true;
  answer.queue = Nanoseconds(3);
  answer.batch = Nanoseconds(4);
  answer.execution = Nanoseconds(50);
  answer.launched = now;
  RequestSample sample;
  sample.total = Nanoseconds(600);
  ThreadModelCounts* const threads[] = {&statistics.AddThread(), &statistics.AddThread()};
  for (ThreadModelCounts* const thread : threads) {
    sample.code = 0;
    for (int of_one_batch = 0; of_one_batch < 2; ++of_one_batch) thread->Count(model, sample, 1000, &answer, now);
    thread->Count(model, sample, 1000, nullptr, now);  // has not run
    sample.code = 3;
    thread->Count(model, sample, 1000, &answer, now + Nanoseconds(1));
  }
  const ModelTotals totals = statistics.Totals(2);
  EXPECT_EQ(totals.succeeded, 6u);
  EXPECT_EQ(totals.succeeded_ns, 3600u);
  EXPECT_EQ(totals.failed, 2u);
  EXPECT_EQ(totals.failed_ns, 1200u);
  EXPECT_EQ(totals.queue_ns, 28u);
  EXPECT_EQ(totals.execution_ns, 200u);
  EXPECT_EQ(totals.rows, 4000u);
  EXPECT_EQ(totals.batches, 2u);
  EXPECT_EQ(totals.last, now);
  EXPECT_EQ(statistics.Totals(1).succeeded, 0u);
}

}  // namespace
}  // namespace softmax::server
