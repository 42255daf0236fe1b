#include "server/batching/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using testing::TestWork;

constexpr std::size_t kSlab = 4096;
constexpr std::size_t kMemory = 4096 * kSlab;

class TurnsTest : public ::testing::Test {
 protected:
  void Make(const Turns::Options& options, std::uint32_t batch_requests = 256) {
    Shard::Options shard;
    shard.batch.bytes = 64 << 10;
    shard.batch.requests = batch_requests;
    shard.max_in_flight = 1;
    shard_ = std::make_unique<Shard>(shard, arena_, backlog_, lane_, recorder_, [] {});
    turns_ = std::make_unique<Turns>(options, *shard_);
  }

  TestWork* Submit(Caller* caller, TimePoint deadline = kNoDeadline) {
    works_.push_back(std::make_unique<TestWork>(1, 16));
    TestWork* const work = works_.back().get();
    work->set_deadline(deadline);
    work->on_complete = [this, work, caller] {
      order_.push_back(caller);
      if (work->last.status.ok()) {
        ++(work->deadline() >= now_ ? in_time_ : in_vain_);
      }
      turns_->Done(*work, caller, Turns::Kind::kUnary, work->last.ran, now_);
    };
    turns_->Submit(work, caller, Turns::Kind::kUnary, now_);
    return work;
  }

  // Launches what is open, finishes it, and lets the next in.
  void Round() {
    shard_->Flush(now_);
    now_ += std::chrono::microseconds(100);
    for (std::size_t left = lane_.running.size(); left > 0; --left) lane_.FinishOne();
    shard_->Poll();
    turns_->Admit(now_);
  }

  testing::TestMemory memory_{kMemory};
  Arena arena_{memory_.data(), kMemory, kSlab};
  Backlog backlog_{Backlog::Options{}, arena_};
  testing::PuppetLane lane_;
  testing::CountingRecorder recorder_;
  TimePoint now_ = SteadyClock::now();
  std::vector<std::unique_ptr<TestWork>> works_;
  std::vector<const Caller*> order_;
  int in_time_ = 0;
  int in_vain_ = 0;  // run and done after the deadline
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<Turns> turns_;
};

TEST_F(TurnsTest, OneBesideAThousandIsInTheNextBatch) {
  Make({.requests = 16});
  Caller greedy, modest;
  for (int i = 0; i < 1000; ++i) Submit(&greedy);
  Round();  // what the greedy one had with the shard while it was alone
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
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
  for (const auto& work : works_) EXPECT_EQ(work->completions, 1);
}

TEST_F(TurnsTest, WithoutALimitTheThousandComeFirst) {
  Make({.requests = 0});
  Caller greedy, modest;
  for (int i = 0; i < 1000; ++i) Submit(&greedy);
  Submit(&modest);
  Round();
  EXPECT_EQ(std::count(order_.begin(), order_.end(), &modest), 0);
  while (shard_->pending() > 0) Round();
}

TEST_F(TurnsTest, AConnectionAloneHasAWiderLimit) {
  Make({.requests = 16, .alone_factor = 4});
  Caller alone;
  for (int i = 0; i < 200; ++i) Submit(&alone);
  EXPECT_EQ(turns_->waiting(), 200u - 64u);
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
  EXPECT_EQ(order_.size(), 200u);
}

TEST_F(TurnsTest, ThoseThatWaitAreLetInInACircle) {
  Make({.requests = 2});
  Caller callers[3];
  for (int i = 0; i < 40; ++i) {
    for (Caller& caller : callers) Submit(&caller);
  }
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
  ASSERT_EQ(order_.size(), 120u);
  for (const Caller& caller : callers) {  // each has its third of any stretch
    const auto first_half = std::count(order_.begin(), order_.begin() + 60, &caller);
    EXPECT_NEAR(static_cast<double>(first_half), 20, 3);
  }
}

TEST_F(TurnsTest, BytesAreLimitedToo) {
  Make({.requests = 16, .bytes = 128, .alone_factor = 1});
  Caller caller;
  for (int i = 0; i < 5; ++i) Submit(&caller);  // of 64 bytes
  EXPECT_EQ(turns_->waiting(), 3u);
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
}

// Those that wait for their turn count like those in a batch, and each gives its bytes back once, refused ones too.
TEST_F(TurnsTest, AConnectionHoldsNoMoreBytesThanItMay) {
  Make({.requests = 2, .in_flight_bytes = 640, .alone_factor = 1});
  Caller full, other;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Submit(&full)->completions, 0);  // of 64 bytes
  EXPECT_EQ(turns_->waiting(), 8u);
  TestWork* const refused = Submit(&full);
  EXPECT_EQ(refused->completions, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused->last.status)) << refused->last.status;
  EXPECT_EQ(refused->last.status.message(),
            "the connection's unanswered requests hold 640 bytes, this one has 64, and "
            "max_in_flight_bytes_per_connection is 640; try again after the pushback");
  EXPECT_GE(refused->last.retry_after_ms, 20u);
  EXPECT_EQ(recorder_.rejected, std::vector{RejectReason::kConnectionBytes});
  EXPECT_FALSE(turns_->HasBytes(&full, 1));
  EXPECT_EQ(Submit(&other)->completions, 0);
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
  EXPECT_EQ(full.in_flight_bytes, 0u);
  EXPECT_TRUE(turns_->HasBytes(&full, 640));
  EXPECT_EQ(Submit(&full)->completions, 0);
  Round();
  EXPECT_EQ(recorder_.rejected.size(), 1u);
}

TEST_F(TurnsTest, LengthsAreBytesOfAConnectionToo) {
  Make({.in_flight_bytes = 100});
  Caller caller;
  TestWork plain(1, 16), with_lengths(1, 16);  // 64 bytes, and 4 a row
  with_lengths.set_lengths({16});
  plain.on_complete = [&] { turns_->Done(plain, &caller, Turns::Kind::kUnary, plain.last.ran, now_); };
  with_lengths.on_complete = [&] {
    turns_->Done(with_lengths, &caller, Turns::Kind::kUnary, with_lengths.last.ran, now_);
  };
  turns_->Submit(&with_lengths, &caller, Turns::Kind::kUnary, now_);
  EXPECT_EQ(caller.in_flight_bytes, 68u);
  turns_->Submit(&plain, &caller, Turns::Kind::kUnary, now_);
  EXPECT_TRUE(absl::IsResourceExhausted(plain.last.status));
  Round();
  EXPECT_EQ(caller.in_flight_bytes, 0u);
}

TEST_F(TurnsTest, WhatCannotBeRunInTimeIsRefusedAtOnce) {
  Make({.requests = 0});
  Caller caller;
  // 20 requests each 100 us.
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 20; ++k) Submit(&caller);
    Round();
  }
  const std::size_t refused_before = recorder_.rejected.size();
  for (int i = 0; i < 200; ++i) Submit(&caller);  // a millisecond's work
  TestWork* const late = Submit(&caller, now_ + std::chrono::microseconds(200));
  EXPECT_EQ(late->completions, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(late->last.status)) << late->last.status;
  EXPECT_GT(late->last.retry_after_ms, 0u);
  EXPECT_EQ(recorder_.rejected.size(), refused_before + 1);
  TestWork* const passed = Submit(&caller, now_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(passed->last.status)) << passed->last.status;
  TestWork* const in_time = Submit(&caller, now_ + std::chrono::milliseconds(5));
  EXPECT_EQ(in_time->completions, 0);
  while (shard_->pending() > 0) Round();
  EXPECT_TRUE(in_time->last.status.ok());
  // Nothing is before it now.
  TestWork* const alone = Submit(&caller, now_ + std::chrono::microseconds(200));
  EXPECT_EQ(alone->completions, 0);
  Round();
  EXPECT_TRUE(alone->last.status.ok());
}

// Thirty connections ask for twice what can be done, and give up after 5 ms. If more were let in than can be done in
// that time, each would be done when nobody waits for it any more.
TEST_F(TurnsTest, InAnOverloadWhatIsRunIsInTime) {
  constexpr int kBatch = 50;  // each 100 us
  Make({.requests = 16}, kBatch);
  Caller callers[30];
  int next = 0;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < 2 * kBatch; ++k) {
        Submit(&callers[next++ % std::ssize(callers)], now_ + std::chrono::milliseconds(5));
      }
      Round();
    }
  };
  rounds(300);
  in_time_ = in_vain_ = 0;
  rounds(500);
  EXPECT_GE(in_time_, 500 * kBatch * 95 / 100);
  EXPECT_LE(in_vain_, 500 * kBatch / 100);
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
  for (const auto& work : works_) ASSERT_EQ(work->completions, 1);
}

// As much as can be done for a while, then a tenth of that, and then much at once: it does not take ten times as long.
TEST_F(TurnsTest, LittleToDoIsNotTakenForLittleThatCanBeDone) {
  Make({.requests = 16}, 200);
  Caller callers[20];
  const auto submit = [&](int each, TimePoint deadline) {
    for (int i = 0; i < each; ++i) {
      for (Caller& caller : callers) Submit(&caller, deadline);
    }
  };
  for (int i = 0; i < 100; ++i) {
    submit(10, kNoDeadline);
    Round();
  }
  for (int i = 0; i < 300; ++i) {
    submit(1, kNoDeadline);
    shard_->Flush(now_);
    submit(1, kNoDeadline);  // the next come while this runs: no pause
    Round();
  }
  const std::size_t refused_before = recorder_.rejected.size();
  submit(10, now_ + std::chrono::microseconds(400));
  EXPECT_EQ(recorder_.rejected.size(), refused_before);
  while (turns_->waiting() > 0 || shard_->pending() > 0) Round();
}

// Refusals inside Submit free room for others, which must not go deeper and deeper into the stack.
TEST_F(TurnsTest, AThousandThatAreLateAreRefusedOneAfterAnother) {
  Make({.requests = 1, .alone_factor = 1});
  Caller caller;
  Submit(&caller);
  for (int i = 0; i < 20000; ++i) Submit(&caller, now_ + std::chrono::microseconds(1));
  Round();
  EXPECT_EQ(turns_->waiting(), 0u);
  EXPECT_EQ(order_.size(), 20001u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(works_.back()->last.status));
}

TEST_F(TurnsTest, ARequestWhoseConnectionHasGoneIsRun) {
  Make({});
  TestWork* const work = Submit(nullptr);
  Round();
  EXPECT_TRUE(work->last.status.ok());
  EXPECT_EQ(work->completions, 1);
}

}  // namespace
}  // namespace softmax::server
