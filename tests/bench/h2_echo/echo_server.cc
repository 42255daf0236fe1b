// The wire of gRPC without gRPC: the echo of echo_server.cc, by nghttp2 and one epoll loop a thread. A measurement of
// what gRPC's own server costs (docs/measurements/transport.md), and nothing to serve with: plain text, two methods.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/address.h"
#include "server/base/tcp_listen.h"
#include "tests/bench/h2_echo/loop.h"

namespace {

using softmax::bench::EchoConnection;
using softmax::bench::Loop;
using softmax::bench::RotatingBuffer;

constexpr int kBacklog = 1024;
// Of all threads together.
constexpr std::size_t kCopyBytes = 64 << 20;

struct Settings {
  std::vector<std::string> addresses = {"127.0.0.1:50061"};
  unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u);
  bool copy = false;
  bool ends_floods = true;
};

int ListenUnix(std::string_view path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) return -1;
  path.copy(name.sun_path, path.size());
  unlink(name.sun_path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool listens =
      bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 && listen(fd, kBacklog) == 0;
  return listens ? fd : -1;
}

// False, and why on standard error, when an address cannot be had.
bool Listen(const std::vector<std::string>& addresses, std::vector<pollfd>* to) {
  for (const std::string& address : addresses) {
    if (const auto path = softmax::UnixPath(address)) {
      const int fd = ListenUnix(*path);
      if (fd < 0) std::cerr << "cannot listen on " << address << "\n";
      if (fd < 0) return false;
      to->push_back({fd, POLLIN, 0});
      std::cout << "listening on " << address << std::endl;
      continue;
    }
    const auto found = softmax::server::ListenTcp(address, softmax::server::Wildcard::kBothFamilies, kBacklog);
    if (!found.problem.empty()) std::cerr << address << " " << found.problem << "\n";
    if (!found.problem.empty()) return false;
    for (const int fd : found.fds) to->push_back({fd, POLLIN, 0});
    std::cout << "listening on " << found.address << std::endl;
  }
  return true;
}

// To the loop that has the fewest: SO_REUSEPORT deals sockets by a hash, so that of 24 connections and eight loops some
// have six and some none.
void Accept(int listener, const std::vector<std::unique_ptr<Loop>>& loops) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));  // refused by unix sockets, which need it not
  (*std::min_element(loops.begin(), loops.end(), [](const auto& a, const auto& b) {
    return a->connections() < b->connections();
  }))->Adopt(fd);
}

int Run(const Settings& settings) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  std::cout << "queues: " << settings.threads << (settings.copy ? ", with a copy" : "") << std::endl;
  std::vector<pollfd> waits = {{signalfd(-1, &signals, SFD_CLOEXEC), POLLIN, 0}};
  if (!Listen(settings.addresses, &waits)) return 3;
  std::vector<std::unique_ptr<RotatingBuffer>> copies;
  std::vector<std::unique_ptr<Loop>> loops;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < settings.threads; ++i) {
    if (settings.copy) copies.push_back(std::make_unique<RotatingBuffer>(kCopyBytes / settings.threads));
    loops.push_back(std::make_unique<Loop>(
        EchoConnection::Settings{settings.copy ? copies.back().get() : nullptr, settings.ends_floods}));
    threads.emplace_back([loop = loops.back().get()] { loop->Run(); });
  }
  while (poll(waits.data(), waits.size(), -1) >= 0 && waits[0].revents == 0) {
    for (const pollfd& listener : waits) {
      if (listener.revents != 0) Accept(listener.fd, loops);
    }
  }
  for (const pollfd& wait : waits) close(wait.fd);
  for (const auto& loop : loops) loop->Drain();
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Echoes SoftmaxService's messages, unary and streams, by nghttp2 instead of gRPC");
  Settings settings;
  app.add_option("--address", settings.addresses, "host:port (port 0: any) or unix:/path, repeatable")
      ->capture_default_str();
  app.add_option("--threads", settings.threads, "loops of one thread each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_flag("--copy", settings.copy, "also copy every message once, into a buffer of 64 MiB in turn");
  app.add_flag("!--unguarded", settings.ends_floods, "leave floods to nghttp2's own limits");
  CLI11_PARSE(app, argc, argv);
  return Run(settings);
}
