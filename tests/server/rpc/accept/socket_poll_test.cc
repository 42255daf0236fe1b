#include "server/rpc/accept/socket_poll.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"

extern int (*grpc_poll_function)(pollfd* fds, nfds_t count, int timeout_ms);

namespace softmax::server {
namespace {

// A pair of which `ours` is waited for, as gRPC waits for a connection. Connections keep a duplicate of its descriptor,
// so that closing it does not take it out of an epoll set.
struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    ours = ends[0];
    theirs = ends[1];
    duplicate = fcntl(ours, F_DUPFD_CLOEXEC, 500);
  }
  int ours, theirs, duplicate;
};

class SocketPollTest : public testing::Test {
 protected:
  SocketPollTest() {
    KeepSocketsBetweenWaits();
    grpc_poll_function(nullptr, 0, 0);  // so few that the set of the test before goes
  }
  ~SocketPollTest() override {
    for (const Pair& pair : pairs_) End(pair);
  }

  void Add() { ForgetKeptSocket(pairs_.emplace_back().ours); }
  static void End(const Pair& pair) {
    for (const int fd : {pair.ours, pair.theirs, pair.duplicate}) close(fd);
  }
  std::vector<pollfd> Asked() {
    std::vector<pollfd> asked;
    for (const Pair& pair : pairs_) asked.push_back({pair.ours, events_, 0});
    return asked;
  }
  // What poll(2) says, and that ours says the same.
  int SameAsPoll(std::vector<pollfd> asked) {
    std::vector<pollfd> expected = asked;
    const int ready = poll(expected.data(), expected.size(), 0);
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), 0), ready);
    for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i].revents, expected[i].revents) << i;
    return ready;
  }

  std::vector<Pair> pairs_;
  short events_ = POLLIN;
};

TEST_F(SocketPollTest, SaysWhatPollSaysWhateverChanges) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int i = 0; i < 40; ++i) Add();
  int ready = 0;
  for (int step = 0; step < 3000 && !HasFailure(); ++step) {
    Pair& pair = pairs_[below(pairs_.size())];
    char bytes[16] = {};
    switch (below(6)) {
      case 0:
        (void)!send(pair.theirs, bytes, sizeof(bytes), MSG_NOSIGNAL);
        break;
      case 1:
        (void)!read(pair.ours, bytes, sizeof(bytes));
        break;
      case 2:  // its number is soon another's
        End(pair);
        pairs_.erase(pairs_.begin() + (&pair - pairs_.data()));
        break;
      case 3:
        if (pairs_.size() < 60) Add();
        break;
      case 4:
        shutdown(pair.theirs, SHUT_WR);
        break;
      case 5:
        std::shuffle(pairs_.begin(), pairs_.end(), random);
        break;
    }
    if (pairs_.size() < 30) Add();
    std::vector<pollfd> asked = Asked();
    for (pollfd& one : asked) one.events = below(8) == 0 ? static_cast<short>(below(2) * POLLOUT) : events_;
    ready += SameAsPoll(asked);
  }
  EXPECT_GT(ready, 1000);
  EXPECT_GE(KeptSocketsOfThread(), 30u);
}

TEST_F(SocketPollTest, ANumberThatIsGivenAgainIsAnotherSocket) {
  for (int i = 0; i < 40; ++i) Add();
  EXPECT_EQ(SameAsPoll(Asked()), 0);
  Pair& old = pairs_.back();
  const int number = old.ours;
  close(old.ours);
  close(old.theirs);  // the duplicate stays, as Connections' does until the accept thread has seen the end
  const int duplicate = old.duplicate;
  pairs_.pop_back();
  Add();
  ASSERT_EQ(pairs_.back().ours, number);
  EXPECT_EQ(SameAsPoll(Asked()), 0) << "the old one's end is not the new one's";
  EXPECT_EQ(write(pairs_.back().theirs, "x", 1), 1);
  EXPECT_EQ(SameAsPoll(Asked()), 1);
  close(duplicate);
}

TEST_F(SocketPollTest, WhatGrpcHasClosedDoesNotKeepTheThreadAwake) {
  for (int i = 0; i < 40; ++i) Add();
  EXPECT_EQ(SameAsPoll(Asked()), 0);
  const Pair gone = pairs_.back();
  pairs_.pop_back();
  close(gone.ours);
  close(gone.theirs);
  int woken = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<pollfd> asked = Asked();
    const TimePoint began = SteadyClock::now();
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), /*timeout_ms=*/2), 0);
    if (SteadyClock::now() - began < std::chrono::milliseconds(1)) ++woken;
  }
  EXPECT_LE(woken, 20);
  close(gone.duplicate);
}

TEST_F(SocketPollTest, ANumberThatWasNotAskedForInBetweenMayBeAnother) {
  for (int i = 0; i < 40; ++i) Add();
  EXPECT_EQ(SameAsPoll(Asked()), 0);
  const int number = pairs_.back().ours;
  End(pairs_.back());
  pairs_.pop_back();
  EXPECT_EQ(SameAsPoll(Asked()), 0);
  pairs_.emplace_back();  // and nobody says so
  ASSERT_EQ(pairs_.back().ours, number);
  EXPECT_EQ(write(pairs_.back().theirs, "x", 1), 1);
  EXPECT_EQ(SameAsPoll(Asked()), 1);
}

TEST_F(SocketPollTest, EndsAreToldUnasked) {
  for (int i = 0; i < 40; ++i) Add();
  events_ = 0;
  EXPECT_EQ(SameAsPoll(Asked()), 0);
  close(std::exchange(pairs_[7].theirs, -1));
  EXPECT_EQ(SameAsPoll(Asked()), 1);
  events_ = POLLIN | POLLOUT | POLLPRI | POLLRDHUP;
  EXPECT_EQ(SameAsPoll(Asked()), 40);
}

TEST_F(SocketPollTest, WhatNoSetTakesIsLeftToPoll) {
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);  // always readable, and not for epoll
  for (int i = 0; i < 40; ++i) Add();
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<pollfd> asked = Asked();
    asked.insert(asked.begin() + 20, pollfd{file, POLLIN, 0});
    EXPECT_EQ(SameAsPoll(asked), 1) << turn;
  }
  std::vector<pollfd> asked = Asked();
  asked.push_back(asked[3]);  // twice
  asked.push_back({-1, POLLIN, 0});
  EXPECT_EQ(write(pairs_[3].theirs, "x", 1), 1);
  EXPECT_EQ(SameAsPoll(asked), 2);
  EXPECT_EQ(SameAsPoll(Asked()), 1);
  close(file);
}

TEST_F(SocketPollTest, WithoutADescriptorForASetPollDoes) {
  for (int i = 0; i < 40; ++i) Add();
  EXPECT_EQ(write(pairs_[3].theirs, "x", 1), 1);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{static_cast<rlim_t>(pairs_.back().theirs) + 1, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<int> all;
  for (int fd; (fd = dup(0)) >= 0;) all.push_back(fd);
  EXPECT_EQ(SameAsPoll(Asked()), 1);
  for (const int fd : all) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(SameAsPoll(Asked()), 1);
}

TEST_F(SocketPollTest, EachThreadHasASetOfItsOwn) {
  for (int i = 0; i < 40; ++i) Add();
  EXPECT_EQ(write(pairs_[3].theirs, "x", 1), 1);
  const std::vector<pollfd> reads = Asked();
  events_ = POLLOUT;
  const std::vector<pollfd> writes = Asked();
  const auto wait = [this](const std::vector<pollfd>& asked, int ready) {
    for (int i = 0; i < 1000 && !HasFailure(); ++i) EXPECT_EQ(SameAsPoll(asked), ready);
  };
  std::thread other(wait, writes, 40);
  wait(reads, 1);
  other.join();
}

TEST_F(SocketPollTest, FewAreLeftToPoll) {
  for (int i = 0; i < 10; ++i) Add();
  EXPECT_EQ(write(pairs_[3].theirs, "x", 1), 1);
  EXPECT_EQ(SameAsPoll(Asked()), 1);
  EXPECT_EQ(KeptSocketsOfThread(), 0u);
}

// A wait of few sockets and one of many.
TEST_F(SocketPollTest, AWaitEndsAtItsWakeAndNoLaterOneDoes) {
  for (const int sockets : {1, 40}) {
    while (pairs_.size() < static_cast<std::size_t>(sockets)) Add();
    int wakes = 0;
    const TimePoint begin = SteadyClock::now();
    EXPECT_TRUE(WakeWaitsAt(begin + std::chrono::milliseconds(20), [&] { ++wakes; }));
    std::vector<pollfd> asked = Asked();
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), 30'000), 0);
    EXPECT_EQ(wakes, 1);
    const Nanoseconds waited = SteadyClock::now() - begin;
    EXPECT_GE(waited, std::chrono::milliseconds(20));
    EXPECT_LT(waited, std::chrono::seconds(20));
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), 1), 0);
    EXPECT_EQ(wakes, 1);
    WakeWaitsAt(begin, [&] { ++wakes; });
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), 0), 0);  // a look, no wait
    EXPECT_EQ(wakes, 1);
    WakeWaitsAt(kNoDeadline, nullptr);
  }
}

TEST_F(SocketPollTest, NothingWakesAWaitThatEndsBefore) {
  for (const int sockets : {1, 40}) {
    while (pairs_.size() < static_cast<std::size_t>(sockets)) Add();
    WakeWaitsAt(SteadyClock::now() + std::chrono::hours(1), [] { ADD_FAILURE() << "woken"; });
    std::vector<pollfd> asked = Asked();
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), 1), 0);
    EXPECT_EQ(write(pairs_.back().theirs, "x", 1), 1);
    EXPECT_EQ(grpc_poll_function(asked.data(), asked.size(), -1), 1);
    EXPECT_EQ(asked.back().revents, POLLIN);
    WakeWaitsAt(kNoDeadline, nullptr);
    char byte;
    EXPECT_EQ(read(pairs_.back().ours, &byte, 1), 1);
  }
}

}  // namespace
}  // namespace softmax::server
