#include "server/metrics/scrape_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/address.h"

namespace softmax::server {
namespace {

constexpr const char* kWorkers = "64";
constexpr const char* kRequestTimeoutMs = "1000";

struct Place {
  std::string host;
  int port = 0;
};

// IPv4 only: the distribution's build of the HTTP library has no IPv6. Empty: parsed.
std::string Parse(const std::string& address, Place* out) {
  const std::string bad = "address " + address + " is not valid: ";
  const auto pieces = SplitHostPort(address);
  if (!pieces) {
    return bad + "want host:port, such as 0.0.0.0:9400";
  }
  if (pieces->in_brackets || pieces->host.find(':') != std::string_view::npos) {
    return bad + "metrics are served on IPv4 only, such as 0.0.0.0:9400";
  }
  const auto port = ParsePort(pieces->port);
  if (!port) {
    return bad + "the port must be a number from 0 to 65535";
  }
  *out = {std::string(pieces->host), *port};
  return "";
}

std::string BindError(const std::string& address, int error) {
  if (error == EADDRINUSE) {
    return "address " + address + " is in use";
  }
  return "address " + address + " cannot be bound: " + std::strerror(error);
}

// Binds for a moment, because the Exposer says only that something failed; and turns names into
// numbers for it.
std::string Probe(const std::string& address, const Place& wanted, std::string* numeric) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(wanted.port);
  if (const int rc = getaddrinfo(wanted.host.c_str(), port.c_str(), &hints, &found); rc != 0) {
    return "address " + address + " cannot be resolved: " + gai_strerror(rc);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return BindError(address, errno);
  }
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool ok = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = errno;
  close(fd);
  if (!ok) {
    return BindError(address, error);
  }
  char host[NI_MAXHOST];
  getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  *numeric = host;
  return "";
}

void ConnectOnce(const std::string& host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  if (fd >= 0) {
    (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    close(fd);
  }
}

}  // namespace

ScrapeServer::ScrapeServer() = default;

ScrapeServer::~ScrapeServer() {
  if (!exposer_) {
    return;
  }
  // The library looks whether it should stop after each connection, or every 2 s when none comes.
  std::atomic<bool> stopped{false};
  std::thread waker([&] {
    while (!stopped) {
      ConnectOnce(host_ == "0.0.0.0" ? "127.0.0.1" : host_, port_);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  exposer_.reset();
  stopped = true;
  waker.join();
}

std::string ScrapeServer::Start(const std::string& address, const std::shared_ptr<prometheus::Collectable>& source) {
  if (exposer_) {
    return "metrics are served already, at port " + std::to_string(port_);
  }
  Place wanted;
  if (std::string error = Parse(address, &wanted); !error.empty()) {
    return error;
  }
  if (std::string error = Probe(address, wanted, &host_); !error.empty()) {
    return error;
  }
  const std::vector<std::string> options = {"listening_ports",
                                            host_ + ":" + std::to_string(wanted.port),
                                            "num_threads",
                                            kWorkers,
                                            "request_timeout_ms",
                                            kRequestTimeoutMs,
                                            "enable_keep_alive",
                                            "no",
                                            "enable_directory_listing",
                                            "no"};
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(options);
    exposer->RegisterCollectable(source);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) {
      return "address " + address + " cannot be served: no listening port";
    }
    port_ = ports.front();
    exposer_ = std::move(exposer);
  } catch (const std::exception& error) {
    return "address " + address + " cannot be served: " + error.what();
  }
  return "";
}

}  // namespace softmax::server
