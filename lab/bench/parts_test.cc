#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "lab/bench/inprocess_caller.h"
#include "lab/bench/rotating_buffer.h"
#include "server/execution/executor.h"
#include "tests/support/eventually.h"

namespace softmax::bench {
namespace {

TEST(RotatingBuffer, GoesOnBehindTheLastCopyAndAroundTheEnd) {
  RotatingBuffer buffer(10);
  std::vector<std::uint8_t> source(7);
  std::iota(source.begin(), source.end(), std::uint8_t{1});
  buffer.Copy(source);
  EXPECT_EQ(buffer.at(), 7u);
  buffer.Copy(source);  // three at the end, four from the beginning
  EXPECT_EQ(buffer.at(), 4u);
  const std::vector<std::uint8_t> expected = {4, 5, 6, 7, 5, 6, 7, 1, 2, 3};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reinterpret_cast<const std::uint8_t*>(buffer.data())));
}

TEST(RotatingBuffer, TakesMoreThanItHolds) {
  RotatingBuffer buffer(4);
  const std::vector<std::uint8_t> source = {1, 2, 3, 4, 5, 6};
  buffer.Copy(source);
  EXPECT_EQ(buffer.at(), 2u);
  const std::vector<std::uint8_t> expected = {5, 6, 3, 4};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reinterpret_cast<const std::uint8_t*>(buffer.data())));
}

// One caller on the CPU backend, stopped after a moment; its figures.
CallerFigures RunCaller(const CallerLoad& load, std::size_t arena_bytes, std::uint64_t* recorded) {
  server::ExecutorOptions executor_options;
  executor_options.backend = server::Backend::kCpu;
  executor_options.arena_bytes = arena_bytes;
  auto executor = server::CreateExecutor(executor_options);
  EXPECT_TRUE(executor.ok()) << executor.status();
  server::Arena arena((*executor)->memory(), arena_bytes, 64 << 10);
  server::Backlog backlog({}, arena);
  Caller caller(load, {}, arena, backlog, 1);
  auto lane = (*executor)->CreateLane(0, caller.wake());
  EXPECT_TRUE(lane.ok()) << lane.status();
  caller.Start(*std::move(lane));
  testing::LetPass(std::chrono::milliseconds(50));
  caller.Set(Caller::Phase::kMeasure);
  testing::LetPass(std::chrono::milliseconds(200));
  caller.Set(Caller::Phase::kStop);
  caller.Join();
  EXPECT_EQ(arena.slabs_used(), 0u);
  *recorded = caller.latency().Count();
  return caller.figures();
}

TEST(Caller, CountsWhatWasAnsweredAndJudgesEveryRequest) {
  std::uint64_t recorded = 0;
  const CallerFigures figures = RunCaller({.rows = 2, .columns = 500, .in_flight = 32}, 64 << 20, &recorded);
  EXPECT_GT(figures.answered, 32u);
  EXPECT_EQ(figures.answered, recorded);
  EXPECT_GE(figures.judged, 32u);
  EXPECT_EQ(figures.wrong, 0u) << figures.first_failure;
  EXPECT_EQ(figures.failed, 0u) << figures.first_failure;
  EXPECT_GT(figures.batches, 0u);
  EXPECT_EQ(figures.batch_rows, 2 * figures.batch_requests);
}

// Requests above what a thread copies itself go through the backlog, and wait there for an arena that holds two.
TEST(Caller, LargeRequestsGoThroughTheBacklog) {
  std::uint64_t recorded = 0;
  const CallerFigures figures = RunCaller({.rows = 512, .columns = 1024, .in_flight = 6}, 4 << 20, &recorded);
  EXPECT_GT(figures.answered, 0u);
  EXPECT_GE(figures.judged, 6u);
  EXPECT_EQ(figures.wrong + figures.failed, 0u) << figures.first_failure;
}

}  // namespace
}  // namespace softmax::bench
