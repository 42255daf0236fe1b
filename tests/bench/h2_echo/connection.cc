#include "tests/bench/h2_echo/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace softmax::bench {

Connection::~Connection() {
  nghttp2_session_del(session_);
  close(fd_);
}

Callbacks Connection::NewCallbacks() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_send_callback(
      callbacks, [](nghttp2_session*, const std::uint8_t* data, std::size_t length, int, void* self) -> ssize_t {
        if (!Of(self)->HasRoom()) return NGHTTP2_ERR_WOULDBLOCK;
        Of(self)->output_.Copy({data, length}, &Of(self)->memory_->small());
        return static_cast<ssize_t>(length);
      });
  nghttp2_session_callbacks_set_send_data_callback(
      callbacks,
      [](nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* head, std::size_t length,
         nghttp2_data_source* source, void* self) -> int {
        if (!Of(self)->HasRoom()) return NGHTTP2_ERR_WOULDBLOCK;
        Of(self)->output_.Copy({head, kFrameHead}, &Of(self)->memory_->small());
        if (length > 0) Of(self)->TakeMessage(frame->hd.stream_id, source, length, &Of(self)->output_);
        return 0;
      });
  // nghttp2's frames of data are of 16 KiB at most unless asked.
  nghttp2_session_callbacks_set_data_source_read_length_callback(
      callbacks,
      [](nghttp2_session*, std::uint8_t, std::int32_t, std::int32_t connection_window, std::int32_t stream_window,
         std::uint32_t max_frame, void*) -> ssize_t {
        return std::min<ssize_t>({connection_window, stream_window, max_frame, kOutputBytes});
      });
  return Callbacks(callbacks);
}

void Connection::Keep(std::span<const std::uint8_t> received, SliceQueue* queue) const {
  if (received.size() <= SliceQueue::kCopiedBytes) {
    queue->Copy(received, &memory_->small());
  } else {
    queue->Add(Slice(memory_->received().chunk(), received.data(), received.size()));
  }
}

bool Connection::Proceed() {
  if (!blocked_ && !Read()) return false;
  return Send() && (nghttp2_session_want_read(session_) || nghttp2_session_want_write(session_));
}

bool Connection::Read() {
  std::span<std::uint8_t> room = memory_->received().Room(kReadBytes / 2);
  room = room.first(std::min(room.size(), kReadBytes));
  const ssize_t got = recv(fd_, room.data(), room.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const auto bytes = static_cast<std::size_t>(got);
  memory_->received().Fill(bytes);
  return nghttp2_session_mem_recv(session_, room.data(), bytes) >= 0;
}

bool Connection::Send() {
  do {
    full_ = false;
    if (nghttp2_session_send(session_) != 0 || !Flush()) return false;
  } while (full_ && !blocked_);
  return true;
}

bool Connection::HasRoom() {
  full_ = output_.bytes() > kOutputBytes;
  return !full_;
}

bool Connection::Flush() {
  blocked_ = false;
  while (!output_.empty()) {
    std::array<iovec, 256> pieces;
    std::size_t count = 0;
    for (const Slice& slice : output_.slices().first(std::min(output_.slices().size(), pieces.size()))) {
      pieces[count++] = {const_cast<std::uint8_t*>(slice.bytes().data()), slice.size()};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      blocked_ = errno == EAGAIN;
      return blocked_;
    }
    output_.Drop(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace softmax::bench
