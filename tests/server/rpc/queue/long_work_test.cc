#include "server/rpc/queue/long_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

namespace softmax::server {
namespace {

TEST(LongWork, OwnersTakeTurns) {
  LongWork work(1);
  const int first = 0, second = 0;
  std::promise<void> go, done;
  std::string order;
  work.Add(&first, [&] { go.get_future().wait(); });  // until all are there
  for (int i = 0; i < 3; ++i) work.Add(&first, [&] { order += 'a'; });
  work.Add(&second, [&] { order += 'b'; });
  work.Add(&second, [&] { order += 'b'; });
  work.Add(&first, [&] { done.set_value(); });
  go.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "babaa");
}

TEST(LongWork, AnOwnerHasOneThreadAtATime) {
  LongWork work(4);
  std::atomic<int> running{0}, most{0};
  std::promise<void> done;
  for (int i = 0; i < 200; ++i) {
    work.Add(nullptr, [&, i] {
      most = std::max(most.load(), ++running);
      --running;
      if (i == 199) done.set_value();
    });
  }
  done.get_future().wait();
  EXPECT_EQ(most, 1);
}

TEST(LongWork, WhatIsNotBegunAtTheEndIsDropped) {
  std::promise<void> begun, go;
  bool dropped = true;
  LongWork work(1);
  work.Add(nullptr, [&] {
    begun.set_value();
    go.get_future().wait();
  });
  work.Add(nullptr, [&] { dropped = false; });
  begun.get_future().wait();
  const auto stopping = std::async(std::launch::async, [&] { work.Stop(); });
  // Stop waits for what was begun; it has said so to the thread by the time that the thread looks again.
  stopping.wait_for(std::chrono::milliseconds(50));
  go.set_value();
  stopping.wait();
  EXPECT_TRUE(dropped);
}

}  // namespace
}  // namespace softmax::server
