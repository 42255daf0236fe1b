#include "server/batching/backlog.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "server/batching/batcher.h"
#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using testing::TestRequest;

constexpr std::size_t kSlab = 1024;

// A queue thread in small: polls its batcher until everything submitted is answered. `lane` runs batches itself.
class RunningLane final : public testing::FinishingLane {
 public:
  void Launch(Batch* batch) override {
    testing::PuppetLane::Run(*batch);
    batch->status = absl::OkStatus();
    Finish(batch);
  }
};

Batcher::Options SmallOptions() {
  Batcher::Options options;
  options.batch.bytes = 4 * kSlab;
  options.inline_copy_bytes = 4 * kSlab;
  return options;
}

void RunUntilAnswered(Batcher& batcher) {
  while (batcher.pending() > 0) {
    batcher.Poll();
    batcher.Flush(SteadyClock::now());
    std::this_thread::yield();
  }
}

TEST(Backlog, SixteenCallersOfTheLargestRequestWithRoomForTwo) {
  constexpr int kCallers = 16;
  testing::TestMemory memory(64 * kSlab);
  Arena arena(memory.data(), 64 * kSlab, kSlab);  // two of 32 slabs
  Backlog::Options options;
  options.threads = 4;
  Backlog backlog(options, arena);
  std::vector<std::jthread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < kCallers; ++t) {
    threads.emplace_back([&, t] {
      RunningLane lane;
      testing::CountingRecorder recorder;
      Batcher batcher(SmallOptions(), arena, backlog, lane, recorder, [] {});
      TestRequest request(8, 32 * kSlab / 8 / 4, static_cast<float>(t));
      batcher.Submit(&request, SteadyClock::now());
      RunUntilAnswered(batcher);
      if (request.completions == 1 && request.last.status.ok() &&
          request.floats()[request.spec().elements() - 1] == 2.0f * static_cast<float>(t)) {
        ++right;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, kCallers);
  EXPECT_EQ(arena.slabs_used(), 0u);
}

TEST(Backlog, FullQueueRefusesWithPushback) {
  testing::TestMemory memory(8 * kSlab);
  Arena arena(memory.data(), 8 * kSlab, kSlab);
  const SpanRef everything(&arena, arena.TryReserve(8 * kSlab));
  Backlog::Options options;
  options.max_requests = 2;
  Backlog backlog(options, arena);
  RunningLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher(SmallOptions(), arena, backlog, lane, recorder, [] {});
  TestRequest a(1, 8), b(1, 8), c(1, 8);
  for (TestRequest* request : {&a, &b, &c}) batcher.Submit(request, SteadyClock::now());
  EXPECT_EQ(a.completions + b.completions, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(c.last.status));
  EXPECT_GT(c.last.retry_after_ms, 0u);
  EXPECT_EQ(backlog.queued_requests(), 2u);
  backlog.Stop(/*fail=*/true);
  RunUntilAnswered(batcher);
  EXPECT_TRUE(absl::IsUnavailable(a.last.status));
  EXPECT_EQ(backlog.queued_requests(), 0u);
  EXPECT_EQ(backlog.queued_bytes(), 0u);
}

TEST(Backlog, ADeadlineThatPassesInTheQueueIsAnsweredThere) {
  testing::TestMemory memory(8 * kSlab);
  Arena arena(memory.data(), 8 * kSlab, kSlab);
  SpanRef everything(&arena, arena.TryReserve(8 * kSlab));
  Backlog backlog(Backlog::Options{}, arena);
  RunningLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher(SmallOptions(), arena, backlog, lane, recorder, [] {});
  TestRequest late(1, 8), patient(1, 8);
  late.set_deadline(SteadyClock::now() + std::chrono::milliseconds(20));
  batcher.Submit(&late, SteadyClock::now());
  batcher.Submit(&patient, SteadyClock::now());
  while (late.completions == 0) batcher.Poll();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.last.status));
  EXPECT_EQ(patient.completions, 0);
  everything.Reset();
  RunUntilAnswered(batcher);
  EXPECT_TRUE(patient.last.status.ok());
  EXPECT_EQ(patient.floats()[0], 2);
}

// A large request for which there is no room as long as `half` is taken, and whose turn has begun.
struct WaitingHead {
  explicit WaitingHead(const Backlog::Options& options) : backlog(options, arena) {
    batcher.Submit(&large, SteadyClock::now());
    while (!backlog.MustQueue(/*small=*/false, SteadyClock::now())) std::this_thread::yield();
  }
  bool IsItsTurn() const { return backlog.MustQueue(/*small=*/true, SteadyClock::now()); }

  testing::TestMemory memory{64 * kSlab};
  Arena arena{memory.data(), 64 * kSlab, kSlab};
  Backlog backlog;
  RunningLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher{SmallOptions(), arena, backlog, lane, recorder, [] {}};
  SpanRef half{&arena, arena.TryReserve(40 * kSlab)};
  TestRequest large{1, 60 * kSlab / 4};
};

TEST(Backlog, InALargeRequestsTurnSmallOnesQueueUpBehindIt) {
  WaitingHead head({.patience = std::chrono::milliseconds(1), .turn = std::chrono::hours(1)});
  // Room for it there is, but it has to line up behind the large one.
  TestRequest small(1, 8);
  head.batcher.Submit(&small, SteadyClock::now());
  head.batcher.Flush(SteadyClock::now());
  head.batcher.Poll();
  EXPECT_EQ(small.completions, 0);
  head.half.Reset();
  RunUntilAnswered(head.batcher);
  EXPECT_TRUE(head.large.last.status.ok());
  EXPECT_TRUE(small.last.status.ok());
}

// Requests behind the head whose deadlines pass do not let small ones pass it by again and again.
TEST(Backlog, OthersDeadlinesDoNotStarveTheHead) {
  WaitingHead head({.patience = std::chrono::milliseconds(20), .turn = std::chrono::hours(1)});
  for (int i = 0; i < 5; ++i) {
    TestRequest hasty(1, 8);
    hasty.set_deadline(SteadyClock::now() + std::chrono::milliseconds(1));
    head.batcher.Submit(&hasty, SteadyClock::now());
    while (hasty.completions == 0) head.batcher.Poll();
    EXPECT_TRUE(absl::IsDeadlineExceeded(hasty.last.status));
    EXPECT_TRUE(head.IsItsTurn());
  }
  head.half.Reset();
  RunUntilAnswered(head.batcher);
  EXPECT_TRUE(head.large.last.status.ok());
  EXPECT_FALSE(head.backlog.MustQueue(/*small=*/true, SteadyClock::now() + std::chrono::minutes(1)));
}

// Its memory may not come for a long time: whoever queued up in its turn is answered at the end of that, and whoever
// comes then does not queue up. Nor does the small one's neighbour that is too large to overtake go before it.
TEST(Backlog, SmallRequestsOvertakeAHeadAfterItsTurn) {
  WaitingHead head({.patience = std::chrono::milliseconds(1),
                    .turn = std::chrono::milliseconds(100),
                    .overtaking = std::chrono::hours(1)});
  TestRequest medium(1, 20 * kSlab / 4), queued(1, 8), passing(1, 8);
  head.batcher.Submit(&medium, SteadyClock::now());
  head.batcher.Submit(&queued, SteadyClock::now());
  EXPECT_EQ(head.backlog.queued_requests(), 3u);
  const TimePoint give_up = SteadyClock::now() + std::chrono::seconds(10);
  while (queued.completions == 0 && SteadyClock::now() < give_up) head.batcher.Poll();
  EXPECT_TRUE(queued.last.status.ok());
  EXPECT_FALSE(head.IsItsTurn());
  head.batcher.Submit(&passing, SteadyClock::now());
  head.batcher.Flush(SteadyClock::now());
  head.batcher.Poll();
  EXPECT_EQ(passing.completions, 1);
  EXPECT_EQ(head.large.completions + medium.completions, 0);
  head.half.Reset();
  RunUntilAnswered(head.batcher);
  EXPECT_TRUE(head.large.last.status.ok());
  EXPECT_TRUE(medium.last.status.ok());
}

// Small requests without a pause: one has its memory always, except in the large request's turn.
TEST(Backlog, AWaitingLargeRequestIsNotStarvedBySmallOnes) {
  testing::TestMemory memory(64 * kSlab);
  Arena arena(memory.data(), 64 * kSlab, kSlab);
  Backlog backlog({.overtaking = std::chrono::milliseconds(100)}, arena);
  testing::PuppetLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher(SmallOptions(), arena, backlog, lane, recorder, [] {});
  TestRequest large(1, 64 * kSlab / 4);
  std::vector<std::unique_ptr<TestRequest>> small;
  bool submitted = false;
  const TimePoint give_up = SteadyClock::now() + std::chrono::seconds(10);
  while (large.completions == 0 && SteadyClock::now() < give_up) {
    std::erase_if(small, [](const auto& request) { return request->completions > 0; });
    small.push_back(std::make_unique<TestRequest>(1, 8));
    const bool running = !lane.running.empty();
    batcher.Submit(small.back().get(), SteadyClock::now());
    batcher.Flush(SteadyClock::now());
    if (!std::exchange(submitted, true)) batcher.Submit(&large, SteadyClock::now());
    if (running) lane.FinishOne();  // after the next has begun
    batcher.Poll();
  }
  EXPECT_EQ(large.completions, 1);
  while (batcher.pending() > 0) {
    batcher.Flush(SteadyClock::now());
    while (!lane.running.empty()) lane.FinishOne();
    batcher.Poll();
  }
}

// From then on answers are copied (AnswerSender), and slow readers are given up (Connections).
TEST(Backlog, MemoryIsShortAfterAHeadsSecondTurn) {
  WaitingHead head({.patience = std::chrono::milliseconds(1),
                    .turn = std::chrono::milliseconds(1),
                    .overtaking = std::chrono::milliseconds(200)});
  EXPECT_FALSE(head.backlog.memory_is_short());
  const TimePoint give_up = SteadyClock::now() + std::chrono::seconds(10);
  while (!head.backlog.memory_is_short() && SteadyClock::now() < give_up) std::this_thread::yield();
  EXPECT_TRUE(head.backlog.memory_is_short());
  head.half.Reset();
  RunUntilAnswered(head.batcher);
  EXPECT_TRUE(head.large.last.status.ok());
  EXPECT_FALSE(head.backlog.memory_is_short());
}

// Its memory is never given back. What is smaller is served, what is as large is not let wait its own time.
TEST(Backlog, AHeadWhoseMemoryDoesNotComeFreeIsRefused) {
  testing::TestMemory memory(64 * kSlab);
  Arena arena(memory.data(), 64 * kSlab, kSlab);
  Backlog::Options options;
  options.max_wait = std::chrono::milliseconds(100);
  Backlog backlog(options, arena);
  RunningLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher(SmallOptions(), arena, backlog, lane, recorder, [] {});
  const SpanRef lost(&arena, arena.TryReserve(40 * kSlab));
  const TimePoint began = SteadyClock::now();
  TestRequest large(1, 60 * kSlab / 4), larger(1, 62 * kSlab / 4), smaller(1, 20 * kSlab / 4);
  for (TestRequest* request : {&large, &smaller, &larger}) batcher.Submit(request, began);
  RunUntilAnswered(batcher);
  EXPECT_GE(SteadyClock::now() - began, options.max_wait);
  for (const TestRequest* request : {&large, &larger}) {
    EXPECT_EQ(request->completions, 1);
    EXPECT_TRUE(absl::IsResourceExhausted(request->last.status)) << request->last.status;
    EXPECT_EQ(request->last.status.message(),
              "memory for 61440 bytes did not come free within 100 ms; try again after the pushback");
    EXPECT_GE(request->last.retry_after_ms, 20u);
  }
  EXPECT_TRUE(smaller.last.status.ok()) << smaller.last.status;
  EXPECT_EQ(recorder.rejected, (std::vector{RefuseReason::kNoMemory, RefuseReason::kNoMemory}));
  EXPECT_EQ(backlog.queued_requests(), 0u);
  EXPECT_EQ(backlog.queued_bytes(), 0u);
}

// The head's turns end, too, when nobody waits for it any more.
TEST(Backlog, AHeadWhoseCallerLeftMakesWayForTheNext) {
  WaitingHead head({.turn = std::chrono::milliseconds(50)});
  TestRequest next(1, 20 * kSlab / 4);
  head.batcher.Submit(&next, SteadyClock::now());
  head.large.left = true;
  const TimePoint give_up = SteadyClock::now() + std::chrono::seconds(10);
  while (next.completions == 0 && SteadyClock::now() < give_up) head.batcher.Poll();
  EXPECT_TRUE(next.last.status.ok());
  EXPECT_TRUE(absl::IsCancelled(head.large.last.status)) << head.large.last.status;
  EXPECT_EQ(head.large.copies, 0);
  EXPECT_TRUE(head.recorder.rejected.empty());
  head.half.Reset();
  RunUntilAnswered(head.batcher);
}

// Every request is answered exactly once and right, whatever the mix of sizes and deadlines; all slabs come back.
TEST(Backlog, RandomMixFromManyThreads) {
  testing::TestMemory memory(128 * kSlab);
  Arena arena(memory.data(), 128 * kSlab, kSlab);
  Backlog::Options options;
  options.threads = 3;
  options.max_requests = 64;
  Backlog backlog(options, arena);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      RunningLane lane;
      testing::CountingRecorder recorder;
      Batcher batcher(SmallOptions(), arena, backlog, lane, recorder, [] {});
      for (int round = 0; round < 60; ++round) {
        std::vector<std::unique_ptr<TestRequest>> requests;
        for (int i = 0; i < 12; ++i) {
          const std::int64_t cols = random() % 5 == 0 ? 1 + random() % (40 * kSlab / 4) : 1 + random() % 300;
          requests.push_back(std::make_unique<TestRequest>(1, cols, static_cast<float>(random() % 100)));
          if (random() % 8 == 0) {
            requests.back()->set_deadline(SteadyClock::now() + std::chrono::microseconds(random() % 200));
          }
          batcher.Submit(requests.back().get(), SteadyClock::now());
        }
        RunUntilAnswered(batcher);
        for (const auto& request : requests) {
          if (request->completions != 1) ++wrong;
          if (!request->last.status.ok()) continue;
          const std::uint64_t last = request->spec().elements() - 1;
          if (request->floats()[0] != 2 * request->value() || request->floats()[last] != 2 * request->value()) {
            ++wrong;
          }
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arena.slabs_used(), 0u);
  EXPECT_EQ(backlog.queued_bytes(), 0u);
}

}  // namespace
}  // namespace softmax::server
