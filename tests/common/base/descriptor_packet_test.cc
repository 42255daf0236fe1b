#include "common/base/descriptor_packet.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace softmax {
namespace {

TEST(DescriptorPacket, ADescriptorGoesAlongOrNone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  char packet[8];
  int got = 0, none = 0;
  EXPECT_EQ(SendPacketWith(ends[0], "with", ends[1]), 4);
  EXPECT_EQ(ReceivePacketWith(ends[1], packet, &got), 4);
  EXPECT_EQ(std::string_view(packet, 4), "with");
  EXPECT_EQ(fcntl(got, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(SendPacketWith(ends[0], "alone", -1), 5);
  EXPECT_EQ(ReceivePacketWith(got, packet, &none), 5) << "it is the other end's";
  EXPECT_EQ(none, -1);
  for (const int fd : {ends[0], got}) close(fd);
  errno = EINTR;  // of a call before
  EXPECT_EQ(ReceivePacketWith(ends[1], packet, &none), 0);
  close(ends[1]);
}

}  // namespace
}  // namespace softmax
