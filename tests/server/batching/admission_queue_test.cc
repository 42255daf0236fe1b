#include "server/batching/admission_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using testing::TestRequest;

constexpr std::size_t kSlab = 4096;
constexpr std::size_t kMemory = 4096 * kSlab;

class AdmissionQueueTest : public ::testing::Test {
 protected:
  AdmissionQueueTest() { now_ = SteadyClock::now(); }

  void Make(const AdmissionQueue::Options& options, std::uint32_t batch_requests = 256) {
    Batcher::Options batcher;
    batcher.batch.bytes = 64 << 10;
    batcher.batch.requests = batch_requests;
    batcher.max_in_flight = 1;
    batcher_ = std::make_unique<Batcher>(batcher, arena_, backlog_, lane_, recorder_, [] {});
    admission_ = std::make_unique<AdmissionQueue>(options, *batcher_, budget_, [] { return now_; });
  }

  TestRequest* Submit(ConnectionShare* share, TimePoint deadline = kNoDeadline) {
    requests_.push_back(std::make_unique<TestRequest>(1, 16));
    TestRequest* const request = requests_.back().get();
    request->set_deadline(deadline);
    request->on_complete = [this, request, share] {
      order_.push_back(share);
      if (request->last.status.ok()) {
        ++(request->deadline() >= now_ ? in_time_ : in_vain_);
      }
    };
    admission_->Submit(request, share, CallKind::kUnary, now_);
    return request;
  }

  // Launches what is open, finishes it, and lets the next in.
  void Round() {
    batcher_->Flush(now_);
    now_ += std::chrono::microseconds(100);
    for (std::size_t left = lane_.running.size(); left > 0; --left) lane_.FinishOne();
    batcher_->Poll();
    admission_->AdmitWaiting(now_);
  }

  testing::TestMemory memory_{kMemory};
  Arena arena_{memory_.data(), kMemory, kSlab};
  Backlog backlog_{Backlog::Options{}, arena_};
  testing::PuppetLane lane_;
  testing::CountingRecorder recorder_;
  UnreadBudget budget_{512u << 20};
  static inline TimePoint now_;  // the queue's clock
  std::vector<std::unique_ptr<TestRequest>> requests_;
  std::vector<const ConnectionShare*> order_;
  int in_time_ = 0;
  int in_vain_ = 0;  // run and done after the deadline
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<AdmissionQueue> admission_;
};

TEST_F(AdmissionQueueTest, OneBesideAThousandIsInTheNextBatch) {
  Make({.requests = 16});
  ConnectionShare greedy, modest;
  for (int i = 0; i < 1000; ++i) Submit(&greedy);
  Round();  // what the greedy one had with the batcher while it was alone
  Submit(&modest);
  order_.clear();
  Round();
  EXPECT_EQ(std::count(order_.begin(), order_.end(), &modest), 1);
  // From now on there are two.
  order_.clear();
  Submit(&modest);
  Round();
  EXPECT_EQ(std::count(order_.begin(), order_.end(), &modest), 1);
  EXPECT_LE(order_.size(), 17u);
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
  for (const auto& request : requests_) EXPECT_EQ(request->completions, 1);
}

TEST_F(AdmissionQueueTest, WithoutALimitTheThousandComeFirst) {
  Make({.requests = 0});
  ConnectionShare greedy, modest;
  for (int i = 0; i < 1000; ++i) Submit(&greedy);
  Submit(&modest);
  Round();
  EXPECT_EQ(std::count(order_.begin(), order_.end(), &modest), 0);
  while (batcher_->pending() > 0) Round();
}

TEST_F(AdmissionQueueTest, AConnectionAloneHasAWiderLimit) {
  Make({.requests = 16, .alone_factor = 4});
  ConnectionShare alone;
  for (int i = 0; i < 200; ++i) Submit(&alone);
  EXPECT_EQ(admission_->waiting(), 200u - 64u);
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
  EXPECT_EQ(order_.size(), 200u);
}

TEST_F(AdmissionQueueTest, ThoseThatWaitAreLetInInACircle) {
  Make({.requests = 2});
  ConnectionShare shares[3];
  for (int i = 0; i < 40; ++i) {
    for (ConnectionShare& share : shares) Submit(&share);
  }
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
  ASSERT_EQ(order_.size(), 120u);
  for (const ConnectionShare& share : shares) {  // each has its third of any stretch
    const auto first_half = std::count(order_.begin(), order_.begin() + 60, &share);
    EXPECT_NEAR(static_cast<double>(first_half), 20, 3);
  }
}

// Though each has room for more, when all that ran has finished.
TEST_F(AdmissionQueueTest, ALineThatHadItsTurnStandsLast) {
  Make({.requests = 4});
  ConnectionShare shares[2];
  for (int i = 0; i < 40; ++i) {
    for (ConnectionShare& share : shares) Submit(&share);
  }
  Round();
  order_.clear();
  Round();
  ASSERT_EQ(order_.size(), 8u);
  for (std::size_t i = 1; i < order_.size(); ++i) EXPECT_NE(order_[i], order_[i - 1]) << i;
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
}

TEST_F(AdmissionQueueTest, WorkIsLimitedToo) {
  Make({.requests = 16, .work = 256, .alone_factor = 1});
  ConnectionShare share;
  for (int i = 0; i < 5; ++i) Submit(&share);  // of 64 bytes, and as many of an answer
  EXPECT_EQ(admission_->waiting(), 3u);
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
}

// Those that wait for their turn count like those in a batch, and each gives its bytes back once, refused ones too.
TEST_F(AdmissionQueueTest, AConnectionHoldsNoMoreBytesThanItMay) {
  constexpr std::uint64_t kEach = Charge::kUnaryHeld + 64;
  Make({.requests = 2, .in_flight_bytes = 10 * kEach, .alone_factor = 1});
  ConnectionShare full, other;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Submit(&full)->completions, 0);  // of 64 bytes
  EXPECT_EQ(admission_->waiting(), 8u);
  TestRequest* const refused = Submit(&full);
  EXPECT_EQ(refused->completions, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused->last.status)) << refused->last.status;
  EXPECT_EQ(refused->last.status.message(),
            "the connection's unanswered requests hold 123520 bytes, this one takes 12352, and "
            "max_in_flight_bytes_per_connection is 123520; try again after the pushback");
  EXPECT_GE(refused->last.retry_after_ms, 20u);
  EXPECT_EQ(recorder_.rejected, std::vector{RefuseReason::kConnectionBytes});
  EXPECT_FALSE(admission_->HasBytes(&full, 1));
  EXPECT_EQ(Submit(&other)->completions, 0);
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
  EXPECT_EQ(full.in_flight_bytes, 0u);
  EXPECT_TRUE(admission_->HasBytes(&full, 10 * kEach));
  EXPECT_EQ(Submit(&full)->completions, 0);
  Round();
  EXPECT_EQ(recorder_.rejected.size(), 1u);
}

TEST_F(AdmissionQueueTest, LengthsAreBytesOfAConnectionToo) {
  Make({.in_flight_bytes = 2 * Charge::kUnaryHeld + 130});
  ConnectionShare share;
  TestRequest plain(1, 16), with_lengths(1, 16);  // 64 bytes, and 4 a row as sent and as read
  with_lengths.set_lengths({16});
  admission_->Submit(&with_lengths, &share, CallKind::kUnary, now_);
  EXPECT_EQ(share.in_flight_bytes, Charge::kUnaryHeld + 64 + 4 + 4);
  admission_->Submit(&plain, &share, CallKind::kUnary, now_);
  EXPECT_TRUE(absl::IsResourceExhausted(plain.last.status));
  Round();
  EXPECT_EQ(share.in_flight_bytes, 0u);
}

// A row of one, of which the thousand best are asked for: 8 KiB for 4 bytes.
std::unique_ptr<TestRequest> LargeAnswers(int rows) {
  auto request = std::make_unique<TestRequest>(rows, 1);
  request->mutable_spec().summary.partial = true;
  request->mutable_spec().summary.top_k = 1024;
  return request;
}

TEST_F(AdmissionQueueTest, WhoseAnswersAreNotReadWaits) {
  Make({.unread_bytes = 128 << 10});
  ConnectionShare share;
  constexpr std::uint64_t kAnswer = 6 * 1024 * 8;
  std::vector<std::unique_ptr<TestRequest>> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(LargeAnswers(6));
    admission_->Submit(requests.back().get(), &share, CallKind::kUnary, now_);
  }
  // Two answers fill the share while they are to come,
  EXPECT_EQ(share.coming_bytes, 2 * kAnswer);
  EXPECT_EQ(admission_->waiting(), 2u);
  // and when they have come and are not read: one lies with the transport, one waits for its stream's write.
  requests[0]->on_complete = [&] { share.unread_bytes += kAnswer; };
  requests[1]->on_complete = [&] { share.queued_bytes += kAnswer; };
  const TimePoint begin = now_;
  Round();
  Round();
  EXPECT_EQ(share.coming_bytes, 0u);
  EXPECT_EQ(admission_->waiting(), 2u);
  // Nothing tells when the client reads, so it is looked at again.
  EXPECT_EQ(admission_->next_look(), begin + AdmissionQueue::kLookAgain);
  share.unread_bytes = 0;
  now_ += AdmissionQueue::kLookAgain;
  admission_->LookAgain(now_);
  EXPECT_TRUE(admission_->AdmitWaiting(now_));
  EXPECT_EQ(admission_->waiting(), 1u);
  EXPECT_NE(admission_->next_look(), kNoDeadline);
  share.queued_bytes = 0;
  Round();
  EXPECT_EQ(admission_->waiting(), 0u);
  while (batcher_->pending() > 0) Round();
  now_ += AdmissionQueue::kLookAgain;
  admission_->LookAgain(now_);
  EXPECT_EQ(admission_->next_look(), kNoDeadline);
}

TEST_F(AdmissionQueueTest, WhatAllLeaveUnreadIsBoundedAndLeavesRoomForSmallAnswers) {
  Make({.unread_bytes = 8 << 20});
  budget_.Add(510 << 20);  // of 512 MiB, by others
  ConnectionShare share;
  const auto large = LargeAnswers(512);  // 4 MiB
  admission_->Submit(large.get(), &share, CallKind::kUnary, now_);
  EXPECT_EQ(admission_->waiting(), 1u);
  EXPECT_TRUE(admission_->MayOwe(share, 1 << 20));
  share.unread_bytes = (1 << 20) - 1;
  EXPECT_TRUE(admission_->MayOwe(share, 1));  // half of what is left
  EXPECT_FALSE(admission_->MayOwe(share, 2));
  budget_.Add(-(500 << 20));
  EXPECT_TRUE(admission_->MayOwe(share, 4 << 20));
  share.unread_bytes = 0;
  now_ += AdmissionQueue::kLookAgain;
  admission_->LookAgain(now_);
  EXPECT_TRUE(admission_->AdmitWaiting(now_));
  while (large->completions == 0) Round();
}

TEST_F(AdmissionQueueTest, OneAnswerAloneMayBeLargerThanTheShare) {
  Make({.unread_bytes = 1 << 20});
  ConnectionShare share;
  const auto large = LargeAnswers(512);
  admission_->Submit(large.get(), &share, CallKind::kUnary, now_);
  EXPECT_EQ(admission_->waiting(), 0u);
  while (large->completions == 0) Round();
}

TEST_F(AdmissionQueueTest, WhatCannotBeRunInTimeIsRefusedAtOnce) {
  Make({.requests = 0});
  ConnectionShare share;
  // 20 requests each 100 us.
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 20; ++k) Submit(&share);
    Round();
  }
  const std::size_t refused_before = recorder_.rejected.size();
  for (int i = 0; i < 200; ++i) Submit(&share);  // a millisecond's work
  TestRequest* const late = Submit(&share, now_ + std::chrono::microseconds(200));
  EXPECT_EQ(late->completions, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(late->last.status)) << late->last.status;
  EXPECT_GT(late->last.retry_after_ms, 0u);
  EXPECT_EQ(recorder_.rejected.size(), refused_before + 1);
  TestRequest* const passed = Submit(&share, now_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(passed->last.status)) << passed->last.status;
  TestRequest* const in_time = Submit(&share, now_ + std::chrono::milliseconds(5));
  EXPECT_EQ(in_time->completions, 0);
  while (batcher_->pending() > 0) Round();
  EXPECT_TRUE(in_time->last.status.ok());
  // Nothing is before it now.
  TestRequest* const alone = Submit(&share, now_ + std::chrono::microseconds(200));
  EXPECT_EQ(alone->completions, 0);
  Round();
  EXPECT_TRUE(alone->last.status.ok());
}

// Thirty connections ask for twice what can be done, and give up after 5 ms. If more were let in than can be done in
// that time, each would be done when nobody waits for it any more.
TEST_F(AdmissionQueueTest, InAnOverloadWhatIsRunIsInTime) {
  constexpr int kBatch = 50;  // each 100 us
  Make({.requests = 16}, kBatch);
  ConnectionShare shares[30];
  int next = 0;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < 2 * kBatch; ++k) {
        Submit(&shares[next++ % std::ssize(shares)], now_ + std::chrono::milliseconds(5));
      }
      Round();
    }
  };
  rounds(300);
  in_time_ = in_vain_ = 0;
  rounds(500);
  EXPECT_GE(in_time_, 500 * kBatch * 95 / 100);
  EXPECT_LE(in_vain_, 500 * kBatch / 100);
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
  for (const auto& request : requests_) ASSERT_EQ(request->completions, 1);
}

// As much as can be done for a while, then a tenth of that, and then much at once: it does not take ten times as long.
TEST_F(AdmissionQueueTest, LittleToDoIsNotTakenForLittleThatCanBeDone) {
  Make({.requests = 16}, 200);
  ConnectionShare shares[20];
  const auto submit = [&](int each, TimePoint deadline) {
    for (int i = 0; i < each; ++i) {
      for (ConnectionShare& share : shares) Submit(&share, deadline);
    }
  };
  for (int i = 0; i < 100; ++i) {
    submit(10, kNoDeadline);
    Round();
  }
  for (int i = 0; i < 300; ++i) {
    submit(1, kNoDeadline);
    batcher_->Flush(now_);
    submit(1, kNoDeadline);  // the next come while this runs: no pause
    Round();
  }
  const std::size_t refused_before = recorder_.rejected.size();
  submit(10, now_ + std::chrono::microseconds(400));
  EXPECT_EQ(recorder_.rejected.size(), refused_before);
  while (admission_->waiting() > 0 || batcher_->pending() > 0) Round();
}

// A large request waits for memory that unread answers hold. That is no work: neither is the large one before anybody,
// nor does the time count for what the thread can do.
TEST_F(AdmissionQueueTest, WaitingForMemoryIsNotCountedAsWork) {
  now_ -= std::chrono::minutes(1);  // for which the large one will have waited
  Make({.requests = 0});
  ConnectionShare share, large_share;
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 20; ++k) Submit(&share);
    Round();
  }
  SpanRef unread(&arena_, arena_.TryReserve(kMemory / 2 + kSlab));
  TestRequest large(1, kMemory / 2 / 4);
  admission_->Submit(&large, &large_share, CallKind::kUnary, now_);
  TestRequest* const small = Submit(&share, now_ + std::chrono::milliseconds(1));
  EXPECT_EQ(small->completions, 0) << small->last.status;
  Round();
  unread.Reset();
  while (lane_.running.empty()) batcher_->Poll();
  now_ = SteadyClock::now();
  // From now on it is work.
  TestRequest* const late = Submit(&share, now_ + std::chrono::microseconds(200));
  EXPECT_TRUE(absl::IsResourceExhausted(late->last.status)) << late->last.status;
  Round();
  EXPECT_EQ(large.completions, 1);
  for (int i = 0; i < 200; ++i) Submit(&share);  // a millisecond's work
  TestRequest* const in_time = Submit(&share, now_ + std::chrono::milliseconds(5));
  EXPECT_EQ(in_time->completions, 0) << in_time->last.status;
  while (batcher_->pending() > 0) Round();
  EXPECT_TRUE(in_time->last.status.ok());
}

// One connection's large request waits for memory, and another of them for its turn: its small ones, of other callers
// behind a proxy perhaps, go on.
TEST_F(AdmissionQueueTest, ALargeRequestThatWaitsDoesNotHoldUpSmallOnesOfItsConnection) {
  Make({.requests = 2, .work = 2 << 20});
  ConnectionShare share;
  SpanRef unread(&arena_, arena_.TryReserve(kMemory / 2 + kSlab));
  TestRequest large(1, kMemory / 2 / 4), next(1, kMemory / 2 / 4);
  for (TestRequest* request : {&large, &next}) {
    admission_->Submit(request, &share, CallKind::kUnary, now_);
  }
  for (int i = 0; i < 20; ++i) Submit(&share);
  while (order_.size() < 20 && admission_->may_admit() + batcher_->pending() > 1) Round();
  EXPECT_EQ(order_.size(), 20u);
  EXPECT_EQ(large.completions + next.completions, 0);
  unread.Reset();
  while (next.completions == 0) Round();
  EXPECT_TRUE(large.last.status.ok() && next.last.status.ok());
  EXPECT_EQ(share.batched(), 0u);
}

// Refusals inside Submit free room for others, which must not go deeper and deeper into the stack.
TEST_F(AdmissionQueueTest, AThousandThatAreLateAreRefusedOneAfterAnother) {
  Make({.requests = 1, .alone_factor = 1});
  ConnectionShare share;
  Submit(&share);
  for (int i = 0; i < 20000; ++i) Submit(&share, now_ + std::chrono::microseconds(1));
  Round();
  EXPECT_EQ(admission_->waiting(), 0u);
  EXPECT_EQ(order_.size(), 20001u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(requests_.back()->last.status));
}

// However a request ends, its caller may send the next as soon as it has the answer.
TEST_F(AdmissionQueueTest, AShareIsWithoutARequestBeforeItsCallerIsAnswered) {
  Make({.in_flight_bytes = Charge::kStreamedHeld + 64});
  ConnectionShare share;
  TestRequest run(1, 16), failed(1, 16), late(1, 16), empty(0, 16);
  late.set_deadline(now_);
  int answered = 0;
  for (TestRequest* request : {&run, &failed, &late, &empty}) {
    request->on_complete = [&] {
      ++answered;
      EXPECT_EQ(share.batched(), 0u);
      EXPECT_EQ(share.small.batched_work, 0u);
      EXPECT_EQ(share.in_flight_bytes, 0u);
    };
  }
  for (TestRequest* request : {&run, &failed}) {
    admission_->Submit(request, &share, CallKind::kStreamed, now_);
    EXPECT_EQ(share.batched(), 1u);
    EXPECT_EQ(share.in_flight_bytes, Charge::kStreamedHeld + 64);
    batcher_->Flush(now_);
    lane_.FinishOne(request == &run ? absl::OkStatus() : absl::InternalError("device"));
    batcher_->Poll();
  }
  for (TestRequest* request : {&late, &empty}) {
    admission_->Submit(request, &share, CallKind::kStreamed, now_);
  }
  EXPECT_EQ(answered, 4);
  EXPECT_TRUE(run.last.ran && empty.last.ran);
  EXPECT_FALSE(failed.last.ran || late.last.ran);
}

// A request that comes again, past the queue: it is not given back to the share a second time.
TEST_F(AdmissionQueueTest, ATicketIsForOneTimeOnly) {
  Make({});
  ConnectionShare share;
  TestRequest request(1, 16);
  admission_->Submit(&request, &share, CallKind::kUnary, now_);
  Round();
  batcher_->Submit(&request, now_);
  Round();
  EXPECT_EQ(request.completions, 2);
  EXPECT_EQ(share.batched(), 0u);
  EXPECT_EQ(share.in_flight_bytes, 0u);
}

TEST_F(AdmissionQueueTest, ARequestWhoseConnectionHasGoneIsRun) {
  Make({});
  TestRequest* const request = Submit(nullptr);
  Round();
  EXPECT_TRUE(request->last.status.ok());
  EXPECT_EQ(request->completions, 1);
}

}  // namespace
}  // namespace softmax::server
