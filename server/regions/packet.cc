#include "server/regions/packet.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

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
  iovec piece{const_cast<char*>(packet.data()), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return Sent::kSent;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::kNoRoom : Sent::kEnd;
}

}  // namespace softmax::server
