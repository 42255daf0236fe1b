#include "server/regions/packet.h"

#include <sys/socket.h>

#include <cerrno>

#include "common/base/descriptor_packet.h"

namespace softmax::server {

Received ReceivePacket(int fd, std::string* packet) {
  char bytes[kMostPacketBytes];
  iovec piece{bytes, sizeof(bytes)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  // No room for control data: the kernel drops descriptors that are sent, and says so (MSG_CTRUNC).
  ssize_t got;
  do {
    got = recvmsg(fd, &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Received::kNothingYet;
  if (got <= 0) return Received::kEnd;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Received::kMalformed;
  packet->assign(bytes, static_cast<std::size_t>(got));
  return Received::kPacket;
}

Sent SendPacket(int fd, std::string_view packet, int descriptor) {
  if (SendPacketWith(fd, packet, descriptor, MSG_DONTWAIT) >= 0) return Sent::kSent;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::kNoRoom : Sent::kEnd;
}

}  // namespace softmax::server
