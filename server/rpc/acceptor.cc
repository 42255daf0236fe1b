#include "server/rpc/acceptor.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "server/rpc/listen.h"

namespace softmax::server {
namespace {

// epoll's 64 bits say what is ready: a listener's index, a connection's duplicate descriptor, or the control eventfd.
constexpr std::uint64_t kListener = 1ull << 32;
constexpr std::uint64_t kConnection = 2ull << 32;
constexpr std::uint64_t kControl = 3ull << 32;
// How long accepting rests when the process has no descriptor left: long enough not to spin, short against a client's
// patience.
constexpr int kPauseMs = 50;

void Watch(int epoll, int fd, std::uint32_t events, std::uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Acceptor::Acceptor(const Options& options, Connections& connections)
    : options_(options),
      connections_(connections),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      control_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Watch(epoll_, control_, EPOLLIN, kControl);
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Create(const Options& options, Connections& connections) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(options, connections));
  for (const std::string& address : options.addresses) {
    absl::StatusOr<ListeningSocket> socket = Listen(address);
    if (!socket.ok()) return socket.status();
    acceptor->bound_.push_back(socket->address);
    acceptor->listeners_.push_back(Listener{socket->fd, socket->unix_path});
  }
  return acceptor;
}

Acceptor::~Acceptor() {
  Stop();
  CloseListeners();
  close(epoll_);
  close(control_);
}

// gRPC's server binds a connection that it did not accept itself to the completion queue number rand() % queues, so
// that a few busy connections may all land on one thread. A seed chosen beforehand makes that rand() say the queue
// whose turn it is; if another thread draws in between, the choice is random again, which is no worse than without.
void Acceptor::ChooseSeeds() {
  for (std::uint32_t queue = 0; queue < options_.queues; ++queue) {
    unsigned seed = 1;
    while (true) {
      srand(seed);
      if (static_cast<unsigned>(rand()) % options_.queues == queue) {
        break;
      }
      ++seed;
    }
    seeds_.push_back(seed);
  }
}

void Acceptor::Start(grpc::Server* server) {
  server_ = server;
  ChooseSeeds();
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    Watch(epoll_, listeners_[i].fd, EPOLLIN, kListener | i);
  }
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::StopListening() {
  if (!thread_.joinable()) {  // never started
    CloseListeners();
    return;
  }
  stop_listening_.store(true);
  eventfd_write(control_, 1);
  listening_.wait(true);
}

void Acceptor::Stop() {
  stop_.store(true);
  eventfd_write(control_, 1);
  if (thread_.joinable()) thread_.join();
}

void Acceptor::CloseListeners() {
  for (Listener& listener : listeners_) {
    close(listener.fd);
    if (!listener.unix_path.empty()) unlink(listener.unix_path.c_str());
  }
  listeners_.clear();
  listening_.store(false);
  listening_.notify_all();
}

void Acceptor::Run() {
  epoll_event events[64];
  while (!stop_.load()) {
    const int ready = epoll_wait(epoll_, events, std::size(events), paused_ ? kPauseMs : -1);
    if (paused_ && ready == 0) ResumeAccepting();
    for (int i = 0; i < ready; ++i) HandleEvent(events[i].data.u64);
    if (stop_listening_.load() && !listeners_.empty()) CloseListeners();
  }
  CloseListeners();
}

void Acceptor::HandleEvent(std::uint64_t what) {
  const std::uint64_t number = what & 0xffffffffu;
  if (what >= kControl) {
    eventfd_t ignored;
    eventfd_read(control_, &ignored);
  } else if (what >= kConnection) {
    Forget(static_cast<int>(number));
    if (paused_) ResumeAccepting();  // a descriptor is free again
  } else if (number < listeners_.size()) {
    AcceptReady(listeners_[number]);
  }
}

void Acceptor::AcceptReady(const Listener& listener) {
  while (!paused_) {
    const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      HandOver(fd);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      PauseAccepting(errno);
      return;
    }
    if (errno != ECONNABORTED && errno != EINTR) {
      spdlog::warn("accepting a connection: {}", std::strerror(errno));
      return;
    }
  }
}

void Acceptor::PauseAccepting(int error) {
  if (!complained_) {
    spdlog::error("accepting connections rests: {}; {} are open, raise the descriptor limit", std::strerror(error),
                  connections_.size());
    complained_ = true;
  }
  paused_ = true;
  for (const Listener& listener : listeners_) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, listener.fd, nullptr);
  }
}

void Acceptor::ResumeAccepting() {
  paused_ = false;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    Watch(epoll_, listeners_[i].fd, EPOLLIN, kListener | i);
  }
}

void Acceptor::HandOver(int fd) {
  if (connections_.size() >= options_.max_connections) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    if (!complained_) {
      spdlog::warn("refusing connections: max-connections {} are open", options_.max_connections);
      complained_ = true;
    }
    close(fd);
    return;
  }
  const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) {
    const int error = errno;
    close(fd);
    PauseAccepting(error);
    return;
  }
  complained_ = false;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));  // fails on a unix socket: fine
  const std::string name = absl::StrCat("fd:", fd);             // what gRPC calls the peer
  names_[duplicate] = name;
  connections_.Add(name, duplicate, PeerName(fd));
  Watch(epoll_, duplicate, EPOLLRDHUP, kConnection | static_cast<std::uint64_t>(duplicate));
  srand(seeds_[next_queue_]);
  next_queue_ = (next_queue_ + 1) % options_.queues;
  grpc::AddInsecureChannelFromFd(server_, fd);
}

void Acceptor::Forget(int duplicate) {
  const auto it = names_.find(duplicate);
  if (it == names_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, duplicate, nullptr);
  connections_.Remove(it->second, duplicate);
  names_.erase(it);
}

}  // namespace softmax::server
