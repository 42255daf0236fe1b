#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>

namespace softmax::server {

// Lets answers of one connection that are written right after one another leave together. gRPC sends each answer with a
// system call of its own, and the kernel would carry each through its whole stack to the reader; between the first of
// several and the last, the socket only gathers (TCP_CORK). For the connection's thread.
class Cork {
 public:
  // Larger answers leave at once: the reader takes one from the caches while the next is written.
  static constexpr std::uint64_t kMostBytes = 16u << 10;
  static bool IsWorthIt(std::uint64_t bytes) { return bytes <= kMostBytes; }

  // `fd` is the caller's, and outlives this.
  explicit Cork(int fd) : fd_(fd) {}

  // An answer will be written, inside a CorkScope, before the thread does anything else.
  void Announce() { ++announced_; }

 private:
  friend class CorkScope;
  // Fails on a unix socket, whose writes cost little; it is not asked again.
  void Set(bool on) {
    const int value = on ? 1 : 0;
    can_cork_ = setsockopt(fd_, IPPROTO_TCP, TCP_CORK, &value, sizeof(value)) == 0;
    corked_ = on && can_cork_;
  }

  const int fd_;
  std::uint32_t announced_ = 0;
  bool can_cork_ = true;
  bool corked_ = false;
};

// While one of the announced answers is written.
class CorkScope {
 public:
  // Null: the answer leaves as ever.
  explicit CorkScope(Cork* cork) : cork_(cork) {
    if (cork_ != nullptr && cork_->announced_ > 1 && cork_->can_cork_ && !cork_->corked_) cork_->Set(true);
  }
  ~CorkScope() {
    if (cork_ == nullptr || cork_->announced_ == 0) return;
    if (--cork_->announced_ == 0 && cork_->corked_) cork_->Set(false);
  }
  CorkScope(const CorkScope&) = delete;
  CorkScope& operator=(const CorkScope&) = delete;

 private:
  Cork* const cork_;
};

}  // namespace softmax::server
