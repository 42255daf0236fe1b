#include "server/base/listen.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/loopback.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

TEST(Listen, SaysWhere) {
  const Listening listening = Listen("127.0.0.1:0");
  ASSERT_EQ(listening.problem, "");
  EXPECT_EQ(listening.address, "127.0.0.1:" + std::to_string(listening.port));
  close(testing::ConnectedToLoopback(listening.port));
  close(listening.fds[0]);
}

TEST(Listen, AUnixSocketIsItsUsersAlone) {
  const testing::TempFolder folder;
  const Listening listening = Listen("unix:" + folder.path("s"));
  struct stat info {};
  ASSERT_EQ(stat(folder.path("s").c_str(), &info), 0) << listening.problem;
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  close(listening.fds[0]);
}

}  // namespace
}  // namespace softmax::server
