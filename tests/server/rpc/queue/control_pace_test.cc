#include "server/rpc/queue/control_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

// Says in a shared list whose turn it was.
class Work final : public PacedWork {
 public:
  Work(std::string name, std::string* turns) : name_(std::move(name)), turns_(turns) {}
  void TakeTurn(const absl::Status& entry) override {
    ++turns;
    status = entry;
    if (entry.ok()) *turns_ += name_;
  }

  int turns = 0;
  absl::Status status;

 private:
  const std::string name_;
  std::string* const turns_;
};

class ControlPaceTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Connection> NewConnection() { return std::make_shared<Connection>(-1, "peer", 0); }

  Work* Wait(const std::shared_ptr<Connection>& connection, const std::string& name) {
    work_.push_back(std::make_unique<Work>(name, &turns_));
    pace_.Wait(connection, work_.back().get());
    return work_.back().get();
  }
  // The turns of one step.
  std::string Step() {
    turns_.clear();
    now_ += ControlPace::kStep;
    pace_.Advance(now_);
    return turns_;
  }

  ControlPace pace_{100};
  TimePoint now_ = SteadyClock::now();
  std::string turns_;
  std::deque<std::unique_ptr<Work>> work_;
};

TEST_F(ControlPaceTest, GivesSoManyTurnsAStepFromTheFirstOn) {
  const auto connection = NewConnection();
  for (int i = 0; i < 3 * ControlPace::kTurnsAStep - 1; ++i) Wait(connection, "a");
  EXPECT_EQ(turns_, "aaaa");
  EXPECT_LE(pace_.next(), now_);  // after a pause nobody waits
  pace_.Advance(now_);
  EXPECT_EQ(turns_, "aaaaaaaa");
  EXPECT_EQ(pace_.next(), now_ + ControlPace::kStep);
  pace_.Advance(now_ + ControlPace::kStep - Nanoseconds(1));
  EXPECT_EQ(turns_, "aaaaaaaa");
  EXPECT_EQ(Step(), "aaa");
  EXPECT_EQ(pace_.next(), kNoDeadline);
}

TEST_F(ControlPaceTest, OffersSoManyCallsAStep) {
  int offered = 0;
  for (int i = 0; i < 2 * ControlPace::kOffersAStep; ++i) pace_.Offer([&] { ++offered; });
  EXPECT_EQ(offered, ControlPace::kOffersAStep);
  EXPECT_LE(pace_.next(), now_);
  Step();
  EXPECT_EQ(offered, 2 * ControlPace::kOffersAStep);
  EXPECT_EQ(pace_.next(), kNoDeadline);
}

TEST_F(ControlPaceTest, ConnectionsTakeTurns) {
  const auto flood = NewConnection(), other = NewConnection(), good = NewConnection();
  for (int i = 0; i < 50; ++i) Wait(flood, "f");
  for (int i = 0; i < 3; ++i) Wait(other, "o");
  Wait(good, "g");
  EXPECT_EQ(Step(), "fogf");
  EXPECT_EQ(Step(), "ofof");
  EXPECT_EQ(Step(), "ffff");
}

TEST_F(ControlPaceTest, WhatEndedConnectionsHaveLeftIsDropped) {
  const auto good = NewConnection();
  for (int i = 0; i < 4; ++i) Wait(good, "");  // takes the first step's turns
  std::shared_ptr<Connection> connection = NewConnection();
  const std::weak_ptr<Connection> lives = connection;
  std::vector<Work*> left;
  for (int i = 0; i < 50; ++i) left.push_back(Wait(connection, "e"));
  connection->SetLeft();
  connection.reset();
  now_ += ControlPace::kLookForEnded;
  EXPECT_EQ(Step(), "");
  EXPECT_EQ(pace_.waiting(), 0u);
  EXPECT_TRUE(lives.expired());  // it has a descriptor
  for (const Work* work : left) {
    EXPECT_EQ(work->turns, 1);
    EXPECT_TRUE(absl::IsUnavailable(work->status)) << work->status;
  }
  // One that had ended before its call came.
  EXPECT_TRUE(absl::IsUnavailable(Wait(nullptr, "e")->status));
}

TEST_F(ControlPaceTest, AConnectionWithTooManyIsRefusedThemAndNobodyElse) {
  const auto bad = NewConnection(), good = NewConnection();
  for (int i = 0; i < 4; ++i) Wait(good, "");
  std::vector<Work*> theirs;
  const Work* const mine = Wait(good, "g");
  for (int i = 0; i < 100; ++i) theirs.push_back(Wait(bad, "b"));
  EXPECT_EQ(pace_.waiting(), 101u);
  theirs.push_back(Wait(bad, "b"));
  EXPECT_EQ(pace_.waiting(), 1u);
  for (const Work* work : theirs) {
    EXPECT_EQ(work->turns, 1);
    EXPECT_TRUE(absl::IsResourceExhausted(work->status));
    EXPECT_THAT(std::string(work->status.message()), HasSubstr("more than 100 of this connection"));
  }
  EXPECT_EQ(mine->turns, 0);
  EXPECT_EQ(Step(), "g");
}

TEST_F(ControlPaceTest, WhereAllHaveTooManyTheOneWithTheMostIsRefused) {
  for (int i = 0; i < 4; ++i) Wait(NewConnection(), "");
  const auto most = NewConnection(), good = NewConnection();
  const Work* const mine = Wait(good, "g");
  std::vector<Work*> theirs;
  for (int i = 0; i < 100; ++i) theirs.push_back(Wait(most, "m"));
  std::vector<std::shared_ptr<Connection>> crowd;
  while (pace_.waiting() < ControlPace::kMostWaiting) {
    crowd.push_back(NewConnection());
    for (int i = 0; i < 90 && pace_.waiting() < ControlPace::kMostWaiting; ++i) Wait(crowd.back(), "c");
  }
  EXPECT_EQ(theirs[0]->turns, 0);
  const Work* const late = Wait(good, "g");
  EXPECT_EQ(pace_.waiting(), ControlPace::kMostWaiting + 1 - theirs.size());
  for (const Work* work : theirs) {
    EXPECT_THAT(std::string(work->status.message()), HasSubstr("most of them are of this connection"));
  }
  EXPECT_EQ(mine->turns, 0);
  EXPECT_EQ(late->turns, 0);
}

TEST_F(ControlPaceTest, NothingWaitsWhenTheServerEnds) {
  const auto connection = NewConnection();
  for (int i = 0; i < 4; ++i) Wait(connection, "");
  const Work* const waiting = Wait(connection, "a");
  pace_.Close();
  EXPECT_TRUE(absl::IsUnavailable(waiting->status)) << waiting->status;
  EXPECT_TRUE(absl::IsUnavailable(Wait(connection, "a")->status));
  EXPECT_EQ(pace_.waiting(), 0u);
}

}  // namespace
}  // namespace softmax::server
