#include "server/rpc/accept/socket_poll.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// A variable of gRPC 1.51: what its poller "poll" waits with.
extern int (*grpc_poll_function)(pollfd* fds, nfds_t count, int timeout_ms);

namespace softmax::server {
namespace {

// For fewer, poll(2) takes less.
constexpr nfds_t kMany = 16;
constexpr int kEventsAWait = 256;
// Of sockets that gRPC has closed, while Connections still has the duplicate. A closed number cannot be taken out of
// the set: after so many events of such it is made anew.
constexpr int kMostStale = 16;

class KeptSockets {
 public:
  ~KeptSockets() { Close(); }

  std::size_t size() const { return size_; }

  bool WakeAt(TimePoint at, std::function<void()> wake) {
    wake_at_ = at;
    wake_ = std::move(wake);
    return waited_;
  }

  // As poll(2).
  int Wait(std::span<pollfd> asked, int timeout_ms) {
    waited_ = true;
    size_ = asked.size() < kMany ? 0 : asked.size();
    if (size_ == 0 && epoll_ >= 0) Close();
    if (size_ == 0 || !Keep(asked)) return PollUntilWake(asked, timeout_ms);
    if (timeout_ms != 0 && wake_at_ != kNoDeadline) {
      pollfd set{epoll_, POLLIN, 0};
      if (const int ready = PollUntilWake({&set, 1}, timeout_ms); ready <= 0) return ready;
      timeout_ms = 0;
    }
    epoll_event events[kEventsAWait];
    const int ready = epoll_wait(epoll_, events, kEventsAWait, timeout_ms);
    int told = 0;
    for (int i = 0; i < ready; ++i) {
      const Socket& socket = sockets_[static_cast<std::uint32_t>(events[i].data.u64)];
      if (socket.wait != wait_ || socket.generation != events[i].data.u64 >> 32) {
        ++stale_;
        continue;
      }
      asked[socket.index].revents = static_cast<short>(events[i].events);
      ++told;
    }
    if (stale_ >= kMostStale) Close();
    return ready < 0 ? ready : told;
  }

  void Forget(int fd) {
    if (static_cast<std::size_t>(fd) < sockets_.size()) sockets_[fd] = {.generation = sockets_[fd].generation + 1};
  }

 private:
  struct Socket {
    short events = 0;              // that the set has it for
    std::uint32_t generation = 0;  // of those that have had the number
    std::uint64_t wait = 0;        // the last that was for it
    std::size_t index = 0;         // and where
  };

  int PollUntilWake(std::span<pollfd> asked, int timeout_ms) {
    if (timeout_ms == 0 || wake_at_ == kNoDeadline) return poll(asked.data(), asked.size(), timeout_ms);
    Nanoseconds left = std::max(Nanoseconds(0), Nanoseconds(wake_at_ - SteadyClock::now()));
    if (timeout_ms > 0) left = std::min(left, Nanoseconds(std::chrono::milliseconds(timeout_ms)));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec time{seconds.count(), static_cast<long>((left - seconds).count())};
    const int ready = ppoll(asked.data(), asked.size(), &time, nullptr);
    if (ready == 0 && SteadyClock::now() >= wake_at_) {
      wake_at_ = kNoDeadline;
      wake_();
    }
    return ready;
  }

  // False: one of them is no socket, or asked for twice, or the kernel does not take it.
  bool Keep(std::span<pollfd> asked) {
    if (epoll_ < 0) epoll_ = epoll_create1(EPOLL_CLOEXEC);
    ++wait_;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (asked[i].fd < 0) return false;
      const auto fd = static_cast<std::size_t>(asked[i].fd);
      if (fd >= sockets_.size()) sockets_.resize(fd + 1);
      Socket& socket = sockets_[fd];
      if (socket.wait == wait_) return false;  // it is asked for twice
      // What the last wait was not for may be another by now.
      if (socket.wait != wait_ - 1 || socket.events != asked[i].events) {
        epoll_event event{};
        event.events = static_cast<std::uint16_t>(asked[i].events);
        event.data.u64 = std::uint64_t{socket.generation} << 32 | fd;
        const bool taken = epoll_ctl(epoll_, EPOLL_CTL_MOD, asked[i].fd, &event) == 0 ||
                           epoll_ctl(epoll_, EPOLL_CTL_ADD, asked[i].fd, &event) == 0;
        if (!taken) return false;
        socket.events = asked[i].events;
      }
      socket.wait = wait_;
      socket.index = i;
      asked[i].revents = 0;
    }
    return true;
  }

  void Close() {
    if (epoll_ >= 0) close(epoll_);
    epoll_ = -1;
    sockets_.clear();
    stale_ = 0;
  }

  int epoll_ = -1;
  std::size_t size_ = 0;
  std::uint64_t wait_ = 1;  // a new Socket has missed the last
  int stale_ = 0;
  std::vector<Socket> sockets_;  // by their number
  bool waited_ = false;
  TimePoint wake_at_ = kNoDeadline;
  std::function<void()> wake_;
};

thread_local KeptSockets kept_sockets;

}  // namespace

void KeepSocketsBetweenWaits() {
  grpc_poll_function = [](pollfd* fds, nfds_t count, int timeout_ms) {
    return kept_sockets.Wait({fds, count}, timeout_ms);
  };
}

void ForgetKeptSocket(int fd) { kept_sockets.Forget(fd); }

std::size_t KeptSocketsOfThread() { return kept_sockets.size(); }

bool WakeWaitsAt(TimePoint at, std::function<void()> wake) { return kept_sockets.WakeAt(at, std::move(wake)); }

}  // namespace softmax::server
