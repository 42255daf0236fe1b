#include "server/metrics/scrape_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <utility>

#include "common/base/address.h"
#include "server/base/listen.h"

namespace softmax::server {
namespace {

// More than any number of scrapers; the oldest connection gives way.
constexpr std::size_t kMostConnections = 256;
constexpr int kTickMs = 200;  // how often connections that take too long are looked for

// Empty: the descriptors listen at `*port`.
std::string ListenAt(const std::string& address, std::vector<int>* fds, int* port) {
  const std::string bad = "address " + address + " is not valid: ";
  const auto pieces = SplitHostPort(address);
  if (!pieces || (!pieces->in_brackets && pieces->host.find(':') != std::string_view::npos)) {
    return bad + "want host:port or [v6]:port, such as 0.0.0.0:9400";
  }
  if (!ParsePort(pieces->port)) return bad + "the port must be a number from 0 to 65535";
  Listening listening = ListenTcp(address, Wildcard::kBothFamilies, SOMAXCONN);
  if (!listening.problem.empty()) return "address " + address + " " + listening.problem;
  *fds = std::move(listening.fds);
  *port = listening.port;
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

void Serve(const std::vector<int>& listeners, int wake, const Render& render, const HttpPages& pages) {
  std::list<ScrapeConnection> connections;  // the oldest first
  for (;;) {
    std::vector<pollfd> waits = {{wake, POLLIN, 0}};
    for (const int listener : listeners) waits.push_back({listener, POLLIN, 0});
    for (const ScrapeConnection& connection : connections) waits.push_back({connection.fd(), connection.events(), 0});
    // Without connections there is nothing to time.
    poll(waits.data(), waits.size(), connections.empty() ? -1 : kTickMs);
    if (waits[0].revents != 0) return;
    std::size_t i = 1 + listeners.size();
    for (auto it = connections.begin(); it != connections.end(); ++i) {
      if (waits[i].revents != 0) it->Proceed(render, pages);
      it = it->done() ? connections.erase(it) : std::next(it);
    }
    for (std::size_t l = 0; l < listeners.size(); ++l) {
      if (waits[1 + l].revents != 0) Accept(listeners[l], &connections);
    }
  }
}

}  // namespace

ScrapeServer::~ScrapeServer() {
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int fd : listeners_) close(fd);
  if (wake_ >= 0) close(wake_);
}

std::string ScrapeServer::Start(const std::string& address, Render render, HttpPages pages) {
  if (thread_.joinable()) return "metrics are served already, at port " + std::to_string(port_);
  std::string problem = ListenAt(address, &listeners_, &port_);
  if (problem.empty()) {
    wake_ = eventfd(0, EFD_CLOEXEC);
    if (wake_ < 0) problem = "address " + address + " cannot be served: " + std::strerror(errno);
  }
  if (problem.empty()) {
    try {
      thread_ = std::thread([listeners = listeners_, wake = wake_, render = std::move(render),
                             pages = std::move(pages)] { Serve(listeners, wake, render, pages); });
    } catch (const std::system_error&) {
      problem = "address " + address + " cannot be served: no thread can be had";
    }
  }
  if (problem.empty()) return "";
  for (const int fd : listeners_) close(fd);
  listeners_.clear();
  if (wake_ >= 0) close(wake_);
  wake_ = -1;
  port_ = 0;
  return problem;
}

}  // namespace softmax::server
