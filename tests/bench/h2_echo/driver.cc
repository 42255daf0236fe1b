// Calls a server of SoftmaxService by nghttp2 alone, as fast as it answers: a load that costs less than gRPC's own
// client, the same for every server that is compared. Prints one line of JSON.
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/bench/h2_echo/driver_connection.h"
#include "tests/support/eventually.h"

namespace {

using softmax::bench::DriverConnection;
using softmax::bench::Memory;
using softmax::bench::Seen;
using Clock = DriverConnection::Clock;

struct Settings {
  std::string address = "127.0.0.1:50061";
  int connections = 1;
  int in_flight = 1;
  int threads = 1;
  std::size_t payload = 64;
  double warmup = 0.3;
  double seconds = 1;
  bool stream = false;
  int server_pid = 0;
};

enum class Phase { kWarmUp, kMeasure, kEnd };

// Seconds of the processor.
struct Cpu {
  double user = 0;
  double system = 0;
};

Cpu CpuOfProcess(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return {user / ticks, system / ticks};
}

int Connect(const std::string& address) {
  int fd = -1;
  if (address.starts_with("unix:")) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    address.copy(name.sun_path, sizeof(name.sun_path) - 1, 5);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) return -1;
  } else {
    const std::size_t colon = address.rfind(':');
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (colon == std::string::npos ||
        getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) {
      return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int failed = connect(fd, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (failed != 0) return -1;
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  return fd;
}

// SoftmaxRequest { input: Tensor { dtype: FLOAT32, shape: 1 x N, data } } behind gRPC's five bytes; wrapped once more
// for a stream.
std::string Message(std::size_t payload, bool stream) {
  const auto varint = [](std::size_t value) {
    std::string text;
    for (; value >= 128; value >>= 7) text += static_cast<char>(value | 128);
    return text + static_cast<char>(value);
  };
  const auto nested = [&](char tag, const std::string& body) { return tag + varint(body.size()) + body; };
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-4, 4);
  std::string data(payload, '\0');
  for (std::size_t i = 0; i + 4 <= payload; i += 4) {
    const float number = value(random);
    std::memcpy(data.data() + i, &number, 4);
  }
  std::string body = nested('\x7a', "\x08\x01" + nested('\x12', "\x01" + varint(payload / 4)) + nested('\x7a', data));
  if (stream) body = nested('\x0a', body);
  std::string head(5, '\0');
  for (int i = 0; i < 4; ++i) head[static_cast<std::size_t>(4 - i)] = static_cast<char>(body.size() >> (8 * i));
  return head + body;
}

// One thread's connections. False: one of them broke.
bool Drive(const std::vector<int>& sockets, const DriverConnection::Settings& settings, const std::atomic<Phase>& phase,
           Seen* seen) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  Memory memory;
  std::vector<std::unique_ptr<DriverConnection>> connections;
  std::vector<std::uint32_t> waits_for(sockets.size());
  const auto turn = [&](std::size_t i, int operation) {
    if (!connections[i]->Turn(phase == Phase::kMeasure)) return false;
    epoll_event event{};
    event.events = connections[i]->wanted();
    event.data.u64 = i;
    if (event.events != waits_for[i]) epoll_ctl(epoll, operation, connections[i]->fd(), &event);
    waits_for[i] = event.events;
    return true;
  };
  bool good = true;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    connections.push_back(std::make_unique<DriverConnection>(sockets[i], &memory, &settings, seen));
    good &= turn(i, EPOLL_CTL_ADD);
  }
  std::array<epoll_event, 64> events;
  while (good && phase != Phase::kEnd) {
    const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 100);
    for (int i = 0; i < ready; ++i) good &= turn(events[static_cast<std::size_t>(i)].data.u64, EPOLL_CTL_MOD);
  }
  connections.clear();
  close(epoll);
  return good;
}

double Percentile(std::vector<float>* values, double part) {
  if (values->empty()) return 0;
  const auto at = values->begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values->size() - 1) * part);
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

int Run(const Settings& settings) {
  const DriverConnection::Settings calls{
      settings.stream ? "/softmax.v1.SoftmaxService/SoftmaxStream" : "/softmax.v1.SoftmaxService/Softmax",
      settings.address, Message(settings.payload, settings.stream), settings.in_flight, settings.stream};
  const auto count = static_cast<std::size_t>(settings.threads);
  std::vector<std::vector<int>> sockets(count);
  for (int i = 0; i < settings.connections; ++i) {
    const int fd = Connect(settings.address);
    if (fd < 0) {
      std::cerr << "cannot connect to " << settings.address << "\n";
      return 3;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    sockets[static_cast<std::size_t>(i) % count].push_back(fd);
  }
  std::atomic<Phase> phase = Phase::kWarmUp;
  std::vector<Seen> seen(count);
  std::atomic<int> broken = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { broken += Drive(sockets[i], calls, phase, &seen[i]) ? 0 : 1; });
  }
  softmax::testing::LetPass(std::chrono::duration<double>(settings.warmup));
  const Cpu server_before = CpuOfProcess(settings.server_pid), own_before = CpuOfProcess(getpid());
  const auto began = Clock::now();
  phase = Phase::kMeasure;
  softmax::testing::LetPass(std::chrono::duration<double>(settings.seconds));
  phase = Phase::kEnd;
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const Cpu server = CpuOfProcess(settings.server_pid), own = CpuOfProcess(getpid());
  for (std::thread& thread : threads) thread.join();

  std::vector<float> latencies;
  std::uint64_t errors = 0, wrong = 0;
  for (const Seen& of : seen) {
    latencies.insert(latencies.end(), of.latencies_us.begin(), of.latencies_us.end());
    errors += of.errors;
    wrong += of.wrong;
  }
  const auto answers = static_cast<double>(latencies.size());
  const double us = answers == 0 ? 0 : 1e6 / answers;
  const nlohmann::json said = {
      {"calls_per_s", answers / seconds},
      {"GBps", answers / seconds * static_cast<double>(settings.payload) / 1e9},
      {"p50_us", Percentile(&latencies, 0.5)},
      {"p99_us", Percentile(&latencies, 0.99)},
      {"server_user_us", (server.user - server_before.user) * us},
      {"server_system_us", (server.system - server_before.system) * us},
      {"driver_cores", (own.user + own.system - own_before.user - own_before.system) / seconds},
      {"errors", errors},
      {"wrong", wrong}};
  std::cout << said.dump() << std::endl;
  return errors + wrong > 0 || broken > 0 || answers == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Loads a server of SoftmaxService by nghttp2, and prints what it saw as JSON");
  Settings settings;
  app.add_option("--address", settings.address, "host:port or unix:/path")->capture_default_str();
  app.add_option("--connections", settings.connections)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--in-flight", settings.in_flight, "calls of each, or messages of its stream")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--threads", settings.threads)->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--payload-bytes", settings.payload, "of a message's tensor")
      ->check(CLI::Range(4, 64 << 20))
      ->capture_default_str();
  app.add_option("--warmup", settings.warmup, "seconds")->capture_default_str();
  app.add_option("--duration", settings.seconds, "seconds measured")->capture_default_str();
  app.add_flag("--stream", settings.stream, "one stream a connection instead of unary calls");
  app.add_option("--server-pid", settings.server_pid, "whose processor time is shown");
  CLI11_PARSE(app, argc, argv);
  return Run(settings);
}
