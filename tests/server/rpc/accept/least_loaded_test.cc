#include <gtest/gtest.h>

#include <set>

#include "server/rpc/accept/socket_handoff.h"

namespace softmax::server {
namespace {

TEST(LeastLoaded, EachServerHasItsTurn) {
  LeastLoaded dealer(3);
  EXPECT_EQ((std::set<std::size_t>{dealer.Take(), dealer.Take(), dealer.Take()}), (std::set<std::size_t>{0, 1, 2}));
}

TEST(LeastLoaded, TheServerWithTheFewestIsNext) {
  LeastLoaded dealer(3);
  for (int i = 0; i < 9; ++i) (void)dealer.Take();
  dealer.Left(2);
  dealer.Left(2);
  dealer.Left(1);
  EXPECT_EQ(dealer.Take(), 2u);
  const std::size_t next = dealer.Take();  // 1 and 2 have two each
  EXPECT_TRUE(next == 1 || next == 2);
  EXPECT_EQ(dealer.Take(), 3u - next);
}

}  // namespace
}  // namespace softmax::server
