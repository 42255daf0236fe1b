#include "server/metrics/scrape_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <system_error>
#include <utility>

#include "server/base/address.h"
#include "server/metrics/scrape_connection.h"

namespace softmax::server {
namespace {

// More than any number of scrapers; the oldest connection gives way.
constexpr std::size_t kMostConnections = 256;
constexpr int kTickMs = 200;  // how often connections that take too long are looked for
constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

std::string BindError(const std::string& address, int error) {
  if (error == EADDRINUSE) return "address " + address + " is in use";
  return "address " + address + " cannot be bound: " + std::strerror(error);
}

// Empty: `*fd` listens at `*port`.
std::string Listen(const std::string& address, int* fd, int* port) {
  const std::string bad = "address " + address + " is not valid: ";
  const auto pieces = SplitHostPort(address);
  if (!pieces || (!pieces->in_brackets && pieces->host.find(':') != std::string_view::npos)) {
    return bad + "want host:port or [v6]:port, such as 0.0.0.0:9400";
  }
  if (!ParsePort(pieces->port)) return bad + "the port must be a number from 0 to 65535";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string host(pieces->host);
  if (const int rc = getaddrinfo(host.c_str(), std::string(pieces->port).c_str(), &hints, &found); rc != 0) {
    return "address " + address + " cannot be resolved: " + gai_strerror(rc);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  *fd = socket(found->ai_family, kSocketFlags, 0);
  if (*fd < 0) return BindError(address, errno);
  const int on = 1;
  setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (bind(*fd, found->ai_addr, found->ai_addrlen) != 0 || listen(*fd, SOMAXCONN) != 0 ||
      getsockname(*fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return BindError(address, errno);
  }
  *port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return "";
}

void Accept(int listener, std::list<ScrapeConnection>* connections) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Without a descriptor the connection stays in the queue, and poll would say so at once, again and again.
      if (errno == EMFILE || errno == ENFILE) usleep(kTickMs * 1000);
      return;
    }
    connections->emplace_back(fd);
    if (connections->size() > kMostConnections) connections->pop_front();
  }
}

void Serve(int listener, int wake, const std::function<std::string()>& render) {
  std::list<ScrapeConnection> connections;  // the oldest first
  for (;;) {
    std::vector<pollfd> waits = {{wake, POLLIN, 0}, {listener, POLLIN, 0}};
    for (const ScrapeConnection& connection : connections) waits.push_back({connection.fd(), connection.events(), 0});
    // Without connections there is nothing to time.
    poll(waits.data(), waits.size(), connections.empty() ? -1 : kTickMs);
    if (waits[0].revents != 0) return;
    std::size_t i = 2;
    for (auto it = connections.begin(); it != connections.end(); ++i) {
      if (waits[i].revents != 0) it->Proceed(render);
      it = it->done() ? connections.erase(it) : std::next(it);
    }
    if (waits[1].revents != 0) Accept(listener, &connections);
  }
}

// With every signal blocked: the program's are for the threads that wait for them.
std::thread StartThread(const std::function<void()>& run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(run);
  } catch (const std::system_error&) {
    // Said by the caller: the thread is none.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

ScrapeServer::~ScrapeServer() {
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  if (listener_ >= 0) close(listener_);
  if (wake_ >= 0) close(wake_);
}

std::string ScrapeServer::Start(const std::string& address, std::function<std::string()> render) {
  if (thread_.joinable()) return "metrics are served already, at port " + std::to_string(port_);
  std::string problem = Listen(address, &listener_, &port_);
  if (problem.empty()) {
    wake_ = eventfd(0, EFD_CLOEXEC);
    if (wake_ < 0) problem = "address " + address + " cannot be served: " + std::strerror(errno);
  }
  if (problem.empty()) {
    thread_ = StartThread(
        [listener = listener_, wake = wake_, render = std::move(render)] { Serve(listener, wake, render); });
    if (!thread_.joinable()) problem = "address " + address + " cannot be served: no thread can be had";
  }
  if (problem.empty()) return "";
  for (int* fd : {&listener_, &wake_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  port_ = 0;
  return problem;
}

}  // namespace softmax::server
