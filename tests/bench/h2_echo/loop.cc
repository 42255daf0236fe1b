#include "tests/bench/h2_echo/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace softmax::bench {
namespace {

constexpr std::chrono::seconds kDrainFor(1);

void Watch(int epoll, int operation, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

Loop::Loop(const EchoConnection::Settings& settings)
    : settings_(settings), epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  Watch(epoll_, EPOLL_CTL_ADD, wake_, EPOLLIN);
}

Loop::~Loop() {
  served_.clear();
  close(wake_);
  close(epoll_);
}

// A client of HTTP/2 speaks first, so the socket's first event is what makes the connection, on the loop's own thread.
void Loop::Adopt(int fd) {
  ++connections_;
  Watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN);
}

void Loop::Drain() { eventfd_write(wake_, 1); }

void Loop::Run() {
  std::array<epoll_event, 64> events;
  now_ = Deadlines::Clock::now();
  while (now_ < ends_ && (ends_ == Deadlines::Clock::time_point::max() || !served_.empty())) {
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMs(now_));
    now_ = Deadlines::Clock::now();
    for (int i = 0; i < ready; ++i) {
      if (events[static_cast<std::size_t>(i)].data.fd == wake_) {
        BeginToDrain();
      } else {
        Serve(events[static_cast<std::size_t>(i)].data.fd);
      }
    }
    Expire(now_);
  }
}

void Loop::Serve(int fd) {
  Served& served = served_[fd];
  if (served.connection == nullptr) {
    served = {std::make_unique<EchoConnection>(fd, &memory_, &deadlines_, settings_), EPOLLIN};
  }
  if (!served.connection->Turn(now_)) {
    served_.erase(fd);
    --connections_;
    return;
  }
  const std::uint32_t wanted = served.connection->wanted();
  if (wanted != served.waits_for) Watch(epoll_, EPOLL_CTL_MOD, fd, wanted);
  served.waits_for = wanted;
}

void Loop::Expire(Deadlines::Clock::time_point now) {
  while (!deadlines_.empty() && std::get<0>(deadlines_.first()) <= now) {
    const auto [when, connection, stream] = deadlines_.first();
    deadlines_.Remove(deadlines_.first());
    connection->Expire(stream);
    Serve(connection->fd());
  }
}

void Loop::BeginToDrain() {
  Watch(epoll_, EPOLL_CTL_DEL, wake_, 0);
  ends_ = now_ + kDrainFor;
  std::vector<int> sockets;
  for (const auto& [fd, served] : served_) {
    served.connection->Drain();
    sockets.push_back(fd);
  }
  for (const int fd : sockets) Serve(fd);
}

int Loop::WaitMs(Deadlines::Clock::time_point now) const {
  const Deadlines::Clock::time_point next =
      std::min(ends_, deadlines_.empty() ? Deadlines::Clock::time_point::max() : std::get<0>(deadlines_.first()));
  if (next == Deadlines::Clock::time_point::max()) return -1;
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  return static_cast<int>(std::min(std::chrono::ceil<std::chrono::milliseconds>(next - now), kLongest).count());
}

}  // namespace softmax::bench
