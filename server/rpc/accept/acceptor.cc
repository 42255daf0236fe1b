#include "server/rpc/accept/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "server/base/listen.h"
#include "server/base/log.h"
#include "server/base/socket_name.h"

namespace softmax::server {
namespace {

// epoll's 64 bits say what is ready: a listener's index, a connection's duplicate descriptor, the control eventfd, or
// a connection that has not been handed over yet.
constexpr std::uint64_t kListener = 1ull << 32;
constexpr std::uint64_t kConnection = 2ull << 32;
constexpr std::uint64_t kControl = 3ull << 32;
constexpr std::uint64_t kArrival = 4ull << 32;
// How long accepting rests when the process has no descriptor left: long enough not to spin, short against a client's
// patience.
constexpr std::chrono::milliseconds kPause(50);
// How often that is said.
constexpr std::chrono::seconds kComplaints(10);
// A thread that hands connections to gRPC also answers calls, and a TLS handshake takes it a fraction of a millisecond.
// While this number waits for it, further ones stay with the kernel, where they cost neither descriptors nor memory.
constexpr long kHandingOver = 16;
constexpr std::chrono::milliseconds kBreath(1);
// Accepted at once: their greetings are looked at before more are.
constexpr int kAcceptsATurn = 16;
// By how much two looks at one unchanged connection may differ in when its last byte came, which the kernel rounds.
constexpr std::chrono::milliseconds kClockStep(20);
// How often connections that have said nothing are looked at.
constexpr int kArrivalsMs = 200;

void Watch(int epoll, int fd, std::uint32_t events, std::uint64_t what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// Whether this is [::]:PORT, and 0.0.0.0:PORT is asked for as well.
bool HasIpv4Twin(const Acceptor::Place& place, const std::vector<Acceptor::Place>& all) {
  constexpr std::string_view kAny6 = "[::]:";
  if (!place.address.starts_with(kAny6) || place.address.ends_with(":0")) return false;
  const std::string twin = "0.0.0.0:" + place.address.substr(kAny6.size());
  return std::any_of(all.begin(), all.end(), [&](const Acceptor::Place& other) {
    return other.address == twin && other.destination == place.destination;
  });
}

// Whether this has happened there: POLLIN; POLLRDHUP, the other side will say no more.
bool Has(short event, int fd) {
  pollfd state{fd, event, 0};
  return poll(&state, 1, 0) > 0;
}

// Of each Use.
constexpr const char* kWhatItDoes[kUses] = {"has said nothing", "has not finished its handshake", "has made no call",
                                            "has no call under way"};

// Of this thread's processor: what others ran meanwhile is none of its time.
Nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
}

}  // namespace

Acceptor::Acceptor(const Options& options)
    : options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)), control_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Watch(epoll_, control_, EPOLLIN, kControl);
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Create(const Options& options) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(options));
  for (const Place& place : options.places) {
    const Wildcard wildcard = HasIpv4Twin(place, options.places) ? Wildcard::kIpv6Only : Wildcard::kBothFamilies;
    const Listening listening = Listen(place.address, options.unix_socket_mode, wildcard);
    if (!listening.problem.empty()) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", place.address, ": ", listening.problem));
    }
    acceptor->bound_.push_back(listening.address);
    for (const int fd : listening.fds) {
      acceptor->listeners_.push_back(Listener{fd, place.destination, listening.unix_path});
    }
  }
  return acceptor;
}

Acceptor::~Acceptor() {
  Stop();
  CloseListeners(/*all=*/true);
  close(epoll_);
  close(control_);
}

void Acceptor::Start(std::vector<Destination> destinations) {
  destinations_ = std::move(destinations);
  for (std::size_t i = 0; i < listeners_.size(); ++i) Watch(epoll_, listeners_[i].fd, EPOLLIN, kListener | i);
  keeps_spares_ =
      std::any_of(destinations_.begin(), destinations_.end(), [](const Destination& to) { return to.displaces; });
  if (keeps_spares_) spares_.Fill(control_);
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::StopListening() {
  if (!thread_.joinable()) {  // never started
    CloseListeners(/*all=*/true);
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

void Acceptor::CloseListeners(bool all) {
  for (Listener& listener : listeners_) {
    const bool stays =
        !all && listener.destination < destinations_.size() && destinations_[listener.destination].while_draining;
    if (stays || listener.fd < 0) continue;
    close(listener.fd);
    listener.fd = -1;
    silent_sockets_.CloseAll(listener.destination);
    if (!listener.unix_path.empty()) unlink(listener.unix_path.c_str());
  }
  listening_.store(false);
  listening_.notify_all();
}

int Acceptor::WaitMs() const {
  int wait = -1;
  const auto at_most = [&wait](int ms) { wait = wait < 0 ? ms : std::min(wait, ms); };
  if (paused_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(resume_at_ - SteadyClock::now()).count();
    at_most(static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
  if (const TimePoint next = silent_sockets_.listen_at(); next != kNoDeadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - SteadyClock::now()).count();
    at_most(static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
  if (silent_sockets_.size() > 0) at_most(kArrivalsMs);
  return wait;
}

void Acceptor::Run() {
  epoll_event events[64];
  while (!stop_.load()) {
    const int ready = epoll_wait(epoll_, events, std::size(events), WaitMs());
    // By the clock: others' events, such as greetings that come byte by byte, may never leave it a quiet moment.
    if (paused_ && SteadyClock::now() >= resume_at_) ResumeAccepting();
    for (int i = 0; i < ready; ++i) HandleEvent(events[i].data.u64);
    ListenToArrivals();
    if (silent_sockets_.size() > 0) {
      const std::size_t closed = silent_sockets_.CloseOlderThan(SteadyClock::now() - options_.greeting_timeout);
      refused_.fetch_add(closed, std::memory_order_relaxed);
      if (closed > 0) LogDebug("closed ", closed, " connections that said nothing");
    }
    if (stop_listening_.exchange(false)) CloseListeners(/*all=*/false);
  }
  CloseListeners(/*all=*/true);
}

void Acceptor::HandleEvent(std::uint64_t what) {
  const std::uint64_t number = what & 0xffffffffu;
  if (what >= kArrival) {
    Greet(static_cast<int>(number));
  } else if (what >= kControl) {
    eventfd_t ignored;
    eventfd_read(control_, &ignored);
  } else if (what >= kConnection) {
    Forget(static_cast<int>(number));
    if (paused_) ResumeAccepting();  // a descriptor is free again
  } else if (number < listeners_.size() && listeners_[number].fd >= 0) {
    AcceptReady(listeners_[number]);
  }
}

void Acceptor::AcceptReady(const Listener& listener) {
  const bool displaces = destinations_[listener.destination].displaces;
  for (int i = 0; i < kAcceptsATurn && (!paused_ || displaces); ++i) {
    if (!displaces && handing_over_.use_count() > kHandingOver) return Rest(kBreath, /*all=*/false);
    // The last descriptors are for those that others make room for.
    if (!displaces && keeps_spares_ && !spares_.Fill(control_)) return PauseAccepting(errno, /*all=*/false);
    const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      OnAccepted(fd, listener.destination);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // Without descriptors accept4 fails where nobody waits, too.
      if (displaces && !Has(POLLIN, listener.fd)) return;
      if (displaces && FreeDescriptor(listener.destination)) continue;
      return PauseAccepting(errno, /*all=*/displaces);
    }
    if (errno != ECONNABORTED && errno != EINTR) return LogWarning("accepting a connection: ", std::strerror(errno));
  }
}

void Acceptor::PauseAccepting(int error, bool all) {
  if (const TimePoint now = SteadyClock::now(); now >= complain_of_descriptors_) {
    LogError("accepting connections rests: ", std::strerror(error), "; ", accepted_.size(),
             " are open, raise the descriptor limit");
    complain_of_descriptors_ = now + kComplaints;
  }
  Rest(kPause, all);
}

// For a destination that displaces: a spare descriptor, else that of its oldest connection.
bool Acceptor::FreeDescriptor(std::size_t destination) {
  if (spares_.Free()) return true;
  if (!silent_sockets_.CloseOldest(destination)) return Displace(destination);
  refused_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Acceptor::Rest(Nanoseconds time, bool all) {
  paused_ = true;
  resume_at_ = SteadyClock::now() + time;
  for (const Listener& listener : listeners_) {
    if (listener.fd >= 0 && (all || !destinations_[listener.destination].displaces))
      epoll_ctl(epoll_, EPOLL_CTL_DEL, listener.fd, nullptr);
  }
}

void Acceptor::ResumeAccepting() {
  paused_ = false;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (listeners_[i].fd >= 0) Watch(epoll_, listeners_[i].fd, EPOLLIN, kListener | i);
  }
}

void Acceptor::Refused(const char* why, int fd) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  LogDebug("refusing the connection from ", PeerName(fd), ": ", why);
}

// The oldest connection ends, so that those who hold their places keep nobody out.
bool Acceptor::Displace(std::size_t destination) {
  int oldest = -1;
  std::uint64_t number = accepted_number_;
  for (const auto& [duplicate, accepted] : accepted_) {
    if (accepted.destination != destination || accepted.number >= number) continue;
    oldest = duplicate;
    number = accepted.number;
  }
  if (oldest < 0) return false;
  LogDebug("closing connection ", PeerName(oldest), ": the oldest makes room");
  shutdown(oldest, SHUT_RDWR);
  Forget(oldest);
  return true;
}

// How many have a place there, or are about to.
std::size_t Acceptor::Taken(const Connections& places) const {
  std::size_t taken = places.size();
  for (std::size_t i = 0; i < destinations_.size(); ++i) {
    if (destinations_[i].connections == &places) taken += silent_sockets_.size(i);
  }
  return taken;
}

bool Acceptor::MakeRoom(std::size_t destination, const std::string& newcomer) {
  const Destination& to = destinations_[destination];
  if (Taken(*to.connections) < to.max_connections) {
    complained_ = false;
    return true;
  }
  if (!to.displaces) {
    if (DisplaceForShare(to, newcomer)) return true;
  } else if (silent_sockets_.CloseOldest(destination)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return true;
  } else if (Displace(destination)) {
    return true;
  }
  to.connections->room_counts().refused.fetch_add(1, std::memory_order_relaxed);
  if (!complained_) {
    LogWarning("refusing connections: max-connections ", to.max_connections, " are open");
    complained_ = true;
  }
  return false;
}

bool Acceptor::DisplaceForShare(const Destination& to, const std::string& newcomer) {
  const TimePoint now = SteadyClock::now();
  std::optional<Room>& room = rooms_[to.connections];
  if (!room.has_value() || room->IsOutdated(now)) room.emplace(LookAround(to, now));
  while (const std::optional<Room::Occupant> occupant = room->MakeFor(newcomer, now)) {
    const std::string peer = PeerName(occupant->fd);
    if (!Close(*occupant, now)) continue;  // it has begun something since that look
    const auto use = static_cast<std::size_t>(occupant->use);
    const std::uint64_t before = to.connections->room_counts().made[use].fetch_add(1, std::memory_order_relaxed);
    if ((before & (before + 1)) == 0) {
      LogWarning("max-connections ", to.max_connections, " are open: ", peer, ", which ", kWhatItDoes[use],
                 ", makes room for another (", before + 1, " so far)");
    }
    return true;
  }
  return false;
}

Room Acceptor::LookAround(const Destination& to, TimePoint now) const {
  const Nanoseconds begin = ThreadTime();
  std::vector<Room::Occupant> occupants;
  Room::Networks networks;
  for (const SilentSockets::Arrival& arrival : silent_sockets_.all()) {
    if (destinations_[arrival.destination].connections != to.connections) continue;
    ++networks[arrival.network];
    occupants.push_back({arrival.fd, Use::kSilent, arrival.network, arrival.since});
  }
  for (const auto& [duplicate, accepted] : accepted_) {
    if (destinations_[accepted.destination].connections != to.connections) continue;
    ++networks[accepted.network];
    if (auto occupant = OccupantOf(duplicate, accepted, now)) occupants.push_back(std::move(*occupant));
  }
  return Room(std::move(occupants), std::move(networks), to.max_connections, now, ThreadTime() - begin);
}

std::optional<Room::Occupant> Acceptor::OccupantOf(int duplicate, const Accepted& accepted, TimePoint now) const {
  // Connections has it, and so has each of its calls that bring tensors and each answer that is not read yet.
  const bool has_calls = accepted.connection.use_count() > 1;
  const std::shared_ptr<Connection> connection = accepted.connection.lock();
  if (has_calls || connection == nullptr) return std::nullopt;
  switch (connection->account().stage()) {
    case ReadGuard::Stage::kHandshake:
      return Room::Occupant{duplicate, Use::kHandshake, accepted.network, accepted.since};
    case ReadGuard::Stage::kUnused:
      return Room::Occupant{duplicate, Use::kUnused, accepted.network, accepted.since};
    case ReadGuard::Stage::kCalled:
      break;
  }
  return Room::Occupant{duplicate, Use::kIdle, accepted.network, connection->LastByte(now, accepted.since)};
}

// False: it is not what it was when it was looked at.
bool Acceptor::Close(const Room::Occupant& occupant, TimePoint now) {
  if (occupant.use == Use::kSilent) {
    const SilentSockets::Arrival* const arrival = silent_sockets_.Find(occupant.fd);
    if (arrival == nullptr || arrival->since != occupant.since) return false;
    silent_sockets_.Close(occupant.fd);
    refused_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  const auto it = accepted_.find(occupant.fd);
  if (it == accepted_.end()) return false;
  const std::optional<Room::Occupant> is = OccupantOf(occupant.fd, it->second, now);
  if (!is.has_value() || is->use != occupant.use || is->network != occupant.network) return false;
  if (is->since - occupant.since > kClockStep) return false;
  shutdown(occupant.fd, SHUT_RDWR);
  Forget(occupant.fd);
  return true;
}

void Acceptor::OnAccepted(int fd, std::size_t destination) {
  const std::string network = PeerNetwork(fd);
  if (!MakeRoom(destination, network)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    close(fd);
    return;
  }
  const TimePoint now = SteadyClock::now();
  silent_sockets_.Add({fd, destination, network, now},
                      destinations_[destination].displaces ? now : late_->GreetAt(network, now));
  ListenToArrivals();
}

void Acceptor::ListenToArrivals() {
  for (int fd = 0; (fd = silent_sockets_.NextToListenTo(SteadyClock::now())) >= 0;) {
    // Edge-triggered: half a greeting must not wake the loop again and again. Most have come with the connection.
    Watch(epoll_, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, kArrival | static_cast<std::uint64_t>(fd));
  }
}

void Acceptor::Greet(int fd) {
  const SilentSockets::Arrival* const arrival = silent_sockets_.Find(fd);
  if (arrival == nullptr) return;
  const std::size_t destination = arrival->destination;
  char bytes[kGreetingBytes];
  const ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return silent_sockets_.Close(fd);
  const std::string_view said(bytes, static_cast<std::size_t>(got));
  switch (JudgeGreeting(destinations_[destination].handoff->protocol(), said)) {
    case Greeting::kIncomplete:
      if (!Has(POLLRDHUP, fd)) return;
      break;
    case Greeting::kRight: {
      const std::string network = arrival->network;
      epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
      silent_sockets_.Take(fd);
      HandOver(fd, destination, network);
      return;
    }
    case Greeting::kHttp1:
      Refused("it speaks HTTP/1", fd);
      AnswerHttp1(fd);
      break;
    case Greeting::kWrong:
      Refused("it speaks neither gRPC nor what it takes to begin it", fd);
      break;
  }
  silent_sockets_.Close(fd);
}

void Acceptor::HandOver(int fd, std::size_t destination, const std::string& network) {
  int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0 && destinations_[destination].displaces && FreeDescriptor(destination)) {
    duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  }
  if (duplicate < 0) {
    const int error = errno;
    close(fd);
    PauseAccepting(error, /*all=*/false);
    return;
  }
  const Destination& to = destinations_[destination];
  const bool is_tls = to.handoff->protocol() == Protocol::kTls;
  const std::optional<ReadGuard::Account> account =
      ReadGuard::Watch(fd, to.max_streams, is_tls ? ReadGuard::Bytes::kEncrypted : ReadGuard::Bytes::kPlain,
                       [late = late_, network] { late->Ended(network, SteadyClock::now()); });
  if (!account.has_value()) {
    Refused("its descriptor's number is too high to be watched", fd);
    close(fd);
    close(duplicate);
    return;
  }
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));  // fails on a unix socket: fine
  const std::string name = to.handoff->PeerOf(fd);
  const std::size_t server = to.handoff->Choose();
  accepted_[duplicate] = Accepted{destination,
                                  name,
                                  server,
                                  accepted_number_++,
                                  network,
                                  SteadyClock::now(),
                                  to.connections->Add(name, duplicate, PeerName(fd), server, *account)};
  Watch(epoll_, duplicate, EPOLLRDHUP, kConnection | static_cast<std::uint64_t>(duplicate));
  if (!to.run) return to.handoff->HandOff(fd, server);
  to.run(server, [socket = std::make_shared<OwnedSocket>(fd), handoff = to.handoff.get(), server,
                  under_way = handing_over_] { handoff->HandOff(socket->Take(), server); });
}

void Acceptor::Forget(int duplicate) {
  const auto it = accepted_.find(duplicate);
  if (it == accepted_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, duplicate, nullptr);
  const Destination& from = destinations_[it->second.destination];
  from.handoff->Left(it->second.server);
  from.connections->Remove(it->second.peer, duplicate, it->second.server);
  accepted_.erase(it);
}

}  // namespace softmax::server
