#include "server/rpc/queue/sliced_work.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/eventually.h"

namespace softmax::server {
namespace {

TEST(SlicedWork, IsDoneAStepAtATimeAndOwnersTakeTurns) {
  SlicedWork work;
  const int first = 0, second = 0;
  std::string order;
  for (int i = 0; i < 2; ++i) {
    work.Add(&first, [&order, left = 2]() mutable {
      order += 'a';
      return --left == 0;
    });
  }
  work.Add(&second, [&] {
    order += 'b';
    return true;
  });
  while (!work.empty()) work.Run();
  EXPECT_EQ(order, "abaaa");
}

TEST(SlicedWork, GivesTheThreadBackAfterASlice) {
  SlicedWork work;
  int steps = 0;
  work.Add(nullptr, [&] {
    softmax::testing::LetPass(SlicedWork::kSlice);
    return ++steps == 3;
  });
  work.Run();
  EXPECT_EQ(steps, 1);
  EXPECT_FALSE(work.empty());
  while (!work.empty()) work.Run();
  EXPECT_EQ(steps, 3);
}

TEST(SlicedWork, AStepMayAddToItsOwnersAndToOthers) {
  SlicedWork work;
  const int other = 0;
  std::string order;
  work.Add(nullptr, [&] {
    order += 'a';
    for (const void* const owner : {static_cast<const void*>(nullptr), static_cast<const void*>(&other)}) {
      work.Add(owner, [&] {
        order += 'b';
        return true;
      });
    }
    return true;
  });
  while (!work.empty()) work.Run();
  EXPECT_EQ(order, "abb");
}

}  // namespace
}  // namespace softmax::server
