#include "server/rpc/connections.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace softmax::server {
namespace {

int AnyDescriptor() { return open("/dev/null", O_RDWR | O_CLOEXEC); }

// A call of a connection that has ended may come late, when its descriptor's number is another connection's already.
TEST(Connections, ANameUsedAgainIsNoConnectionOfTheServerThatHadIt) {
  Connections connections{Connections::Options{}};
  const int old_fd = AnyDescriptor();
  connections.Add("fd:7", old_fd, "10.0.0.1:1", /*server=*/0);
  ASSERT_NE(connections.Find("fd:7", 0), nullptr);
  EXPECT_EQ(connections.Find("fd:7", 0)->peer(), "10.0.0.1:1");
  EXPECT_EQ(connections.Find("fd:7", 1), nullptr);

  connections.Add("fd:7", AnyDescriptor(), "10.0.0.2:2", /*server=*/1);
  EXPECT_EQ(connections.Find("fd:7", 0), nullptr);
  ASSERT_NE(connections.Find("fd:7", 1), nullptr);
  connections.Remove("fd:7", old_fd);  // the newer one stays
  EXPECT_EQ(connections.Find("fd:7", 1)->peer(), "10.0.0.2:2");
  EXPECT_EQ(connections.size(), 1u);
}

}  // namespace
}  // namespace softmax::server
