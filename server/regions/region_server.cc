#include "server/regions/region_server.h"

#include <absl/strings/str_cat.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/descriptor_packet.h"
#include "server/base/listen.h"
#include "server/base/log.h"

namespace softmax::server {
namespace {

constexpr int kBacklog = 128;
constexpr int kEventsATurn = 64;
constexpr auto kRest = std::chrono::seconds(1);
// What epoll says of.
constexpr std::uint64_t kListener = 0, kBell = 1, kFirstConnection = 2;
// The least that the kernel gives: a few replies. What a client leaves unread, descriptors among it, is bounded by it.
constexpr int kUnreadBytes = 1;

bool MayConnect(int fd, const std::optional<std::vector<uid_t>>& uids, uid_t* uid) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  *uid = peer.uid;
  return !uids || std::find(uids->begin(), uids->end(), peer.uid) != uids->end();
}

// Packets of a connected socket of type SOCK_SEQPACKET, without waiting.

constexpr std::size_t kMostPacketBytes = 4096;

// kEnd: the other side has closed or shut down, or sent an empty packet, which looks the same. kMalformed: it was too
// long, or brought descriptors, none of which reaches this process.
enum class Received { kPacket, kNothingYet, kEnd, kMalformed };
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

enum class Sent { kSent, kNoRoom, kEnd };
// `descriptor`: goes along; -1: none.
Sent SendPacket(int fd, std::string_view packet, int descriptor) {
  if (SendPacketWith(fd, packet, descriptor, MSG_DONTWAIT) >= 0) return Sent::kSent;
  return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::kNoRoom : Sent::kEnd;
}

}  // namespace

// An eventfd that outlives the server where regions do.
class RegionServer::Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Bell() { close(fd_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  int fd() const { return fd_; }
  void Ring() const { (void)eventfd_write(fd_, 1); }
  void Silence() const {
    eventfd_t ignored;
    (void)eventfd_read(fd_, &ignored);
  }

 private:
  const int fd_;
};

struct RegionServer::Connection {
  Connection(int fd_in, RegionServer& server)
      : fd(fd_in), session(server.store_, server.budget_, server.source_, server.registry_) {}
  ~Connection() {
    Sent();
    close(fd);
  }
  void Sent() {
    if (answer && answer->descriptor >= 0) close(answer->descriptor);
    answer.reset();
  }

  const int fd;
  RegionSession session;
  std::optional<RegionAnswer> answer;  // not sent yet: nothing more is read before
};

absl::StatusOr<std::unique_ptr<RegionServer>> RegionServer::Create(const Options& options, SharedMemorySource& source) {
  auto bell = std::make_shared<Bell>();
  if (bell->fd() < 0) return absl::UnavailableError(absl::StrCat("regions-socket: eventfd: ", std::strerror(errno)));
  const Listening listener = ListenUnix(options.socket, SOCK_SEQPACKET, options.mode, kBacklog);
  if (!listener.problem.empty()) {
    return absl::UnavailableError(
        absl::StrCat("regions-socket: cannot listen on ", options.socket, ": ", listener.problem));
  }
  std::unique_ptr<RegionServer> server(new RegionServer(options, source, listener.fds.front(), std::move(bell)));
  if (server->epoll_ < 0) return absl::UnavailableError(absl::StrCat("regions-socket: epoll: ", std::strerror(errno)));
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

RegionServer::RegionServer(const Options& options, SharedMemorySource& source, int listener, std::shared_ptr<Bell> bell)
    : options_(options),
      source_(source),
      registry_(options.queue_threads),
      budget_(options.host, options.device, options.devices),
      bell_(std::move(bell)),
      store_(source, budget_, options.keeps_memory, [bell = bell_] { bell->Ring(); }),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      listener_(listener),
      next_number_(kFirstConnection) {
  Watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
  Watch(EPOLL_CTL_ADD, bell_->fd(), EPOLLIN, kBell);
}

RegionServer::~RegionServer() {
  stopping_.store(true);
  bell_->Ring();
  if (thread_.joinable()) thread_.join();
  StopListening();
  connections_.clear();
  while (store_.GiveBackOne()) {
  }
  close(epoll_);
}

void RegionServer::StopAllocating() {
  draining_.store(true);
  bell_->Ring();
}

void RegionServer::Watch(int operation, int fd, std::uint32_t events, std::uint64_t what) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  epoll_ctl(epoll_, operation, fd, &event);
}

void RegionServer::Run() {
  epoll_event events[kEventsATurn];
  while (!stopping_.load()) {
    const int ready = epoll_wait(epoll_, events, kEventsATurn, Patience());
    if (draining_.load()) StopListening();
    if (resting_until_ && SteadyClock::now() >= *resting_until_) {
      resting_until_.reset();
      if (listener_ >= 0) Watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
    }
    for (int i = 0; i < ready && !stopping_.load(); ++i) {
      const std::uint64_t what = events[i].data.u64;
      if (what == kBell) {
        bell_->Silence();
      } else if (what == kListener) {
        AcceptOne();
      } else {
        Turn(what);
      }
    }
    store_.GiveBackOne();
  }
}

int RegionServer::Patience() const {
  // What a lost device keeps from being given back is looked at again, and never at once.
  if (store_.has_ended()) return options_.keeps_memory() ? 1000 : 0;
  return resting_until_ ? static_cast<int>(std::chrono::milliseconds(kRest).count()) : -1;
}

void RegionServer::StopListening() {
  if (listener_ < 0) return;
  close(listener_);
  listener_ = -1;
  unlink(options_.socket.c_str());
}

void RegionServer::Rest() {
  LogWarning("regions-socket: accepting connections rests: ", std::strerror(errno));
  resting_until_ = SteadyClock::now() + kRest;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
}

void RegionServer::AcceptOne() {
  if (listener_ < 0) return;
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Rest();
    return;
  }
  uid_t uid = static_cast<uid_t>(-1);
  if (!MayConnect(fd, options_.uids, &uid)) {
    return Refuse(fd, {RegionRefusal::kUser, absl::StrCat("uid ", uid, " is not one of --regions-uids")});
  }
  if (connections_.size() >= options_.connections && !MakeRoom()) {
    return Refuse(fd, {RegionRefusal::kConnections, absl::StrCat(connections_.size(),
                                                                 " connections have regions, as many as may "
                                                                 "(--regions-connections)")});
  }
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kUnreadBytes, sizeof(kUnreadBytes));
  const std::uint64_t number = next_number_++;
  connections_.emplace(number, std::make_unique<Connection>(fd, *this));
  open_.store(connections_.size(), std::memory_order_relaxed);
  Watch(EPOLL_CTL_ADD, fd, EPOLLIN, number);
}

// The oldest connection without a region ends, so that silent ones keep nobody out.
bool RegionServer::MakeRoom() {
  const auto idle = std::find_if(connections_.begin(), connections_.end(),
                                 [](const auto& entry) { return !entry.second->session.has_regions(); });
  if (idle == connections_.end()) return false;
  connections_.erase(idle);
  return true;
}

void RegionServer::Refuse(int fd, const RegionRefusal& refusal) {
  Count(refusal.reason);
  LogDebug("regions-socket: ", refusal.message);
  (void)SendPacket(fd, AnswerOf(refusal).packet, -1);
  // Closed with something unread, the client would see a reset in place of the answer.
  shutdown(fd, SHUT_RDWR);
  std::string ignored;
  while (ReceivePacket(fd, &ignored) == Received::kPacket) {
  }
  close(fd);
}

void RegionServer::Turn(std::uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;  // it has made room in this very turn
  Connection& connection = *found->second;
  bool goes_on = true;
  if (!connection.answer) {
    std::string packet;
    std::optional<RegionRefusal::Reason> refusal;
    switch (ReceivePacket(connection.fd, &packet)) {
      case Received::kNothingYet:
        return;
      case Received::kPacket:
        connection.answer = connection.session.Answer(packet, draining_.load());
        refusal = connection.answer->refusal;
        break;
      case Received::kMalformed:
        refusal = RegionRefusal::kMalformed;
        break;
      case Received::kEnd:
        goes_on = false;
        break;
    }
    if (refusal) Count(*refusal);
    if (refusal == RegionRefusal::kMalformed) goes_on = false;
  }
  if (goes_on) goes_on = Send(connection, number);
  if (goes_on) return;
  connections_.erase(found);
  open_.store(connections_.size(), std::memory_order_relaxed);
}

bool RegionServer::Send(Connection& connection, std::uint64_t number) {
  switch (SendPacket(connection.fd, connection.answer->packet, connection.answer->descriptor)) {
    case Sent::kSent:
      connection.Sent();
      Watch(EPOLL_CTL_MOD, connection.fd, EPOLLIN, number);
      return true;
    case Sent::kNoRoom:
      Watch(EPOLL_CTL_MOD, connection.fd, EPOLLOUT, number);
      return true;
    case Sent::kEnd:
      break;
  }
  return false;
}

}  // namespace softmax::server
