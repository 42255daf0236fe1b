// A socket and nghttp2's session on it, of a server or of a client. nghttp2 keeps the state of the protocol and never
// sees a socket; messages pass it by reference.
#pragma once

#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tests/bench/h2_echo/memory.h"

namespace softmax::bench {

struct Nghttp2Deleter {
  void operator()(nghttp2_session_callbacks* callbacks) const { nghttp2_session_callbacks_del(callbacks); }
  void operator()(nghttp2_option* option) const { nghttp2_option_del(option); }
};
using Callbacks = std::unique_ptr<nghttp2_session_callbacks, Nghttp2Deleter>;
using Options = std::unique_ptr<nghttp2_option, Nghttp2Deleter>;

// A header that nghttp2 need not copy: it is a constant, or is sent before it changes.
inline nghttp2_nv Header(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

class Connection {
 public:
  // Owns `fd`, a connected non-blocking socket. `memory` is the thread's.
  Connection(int fd, Memory* memory) : fd_(fd), memory_(memory) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection();

  // Reads once at most, hands what came to the session, and sends what there is to send in as few system calls as it
  // can be. False: the connection is over. Call when the socket can be read or written.
  bool Proceed();

  // What to wait for: events of epoll.
  std::uint32_t wanted() const { return blocked_ ? EPOLLOUT : EPOLLIN; }
  int fd() const { return fd_; }

 protected:
  // Callbacks that both sides share; `Self` gets the rest.
  static Callbacks NewCallbacks();
  static Connection* Of(void* user_data) { return static_cast<Connection*>(user_data); }

  // The session takes `session` over.
  void Start(nghttp2_session* session) { session_ = session; }
  nghttp2_session* session() const { return session_; }
  Memory* memory() const { return memory_; }
  // What a callback was handed of the bytes that were just read, by reference; small pieces are copied.
  void Keep(std::span<const std::uint8_t> received, SliceQueue* queue) const;
  // The piece of the answer or request that follows a frame's head of `length` bytes.
  virtual void TakeMessage(std::int32_t stream, nghttp2_data_source* source, std::size_t length,
                           SliceQueue* output) = 0;

 private:
  // Bytes that wait for the socket, above which no more frames are made.
  static constexpr std::size_t kOutputBytes = 1 << 20;
  // One turn's: others on the thread wait for as long as these take.
  static constexpr std::size_t kReadBytes = 128 << 10;
  static constexpr std::size_t kFrameHead = 9;

  bool Read();
  bool Send();
  bool Flush();
  bool HasRoom();

  const int fd_;
  Memory* const memory_;
  nghttp2_session* session_ = nullptr;
  SliceQueue output_;
  bool full_ = false;  // there are more frames than kOutputBytes
  // The socket takes no more. A peer that does not read is not read, either: it makes nobody hold more than it has now.
  bool blocked_ = false;
};

}  // namespace softmax::bench
