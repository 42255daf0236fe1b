// Floods of HTTP/2 frames from one connection: the server ends it, and hardly anybody else notices.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The flood's share of one loopback connection, as fast as it can be sent; SOFTMAX_TEST_FLOOD_CONNECTIONS=8 is the long
// form.
int Connections() {
  const char* const number = std::getenv("SOFTMAX_TEST_FLOOD_CONNECTIONS");
  return number == nullptr ? 1 : std::atoi(number);
}

// AddressSanitizer keeps freed memory back, and makes the server too slow for as many calls as time forgives.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kEndsFloods = false;
constexpr std::int64_t kFloodMayGrow = INT64_MAX;
#else
constexpr bool kEndsFloods = true;
constexpr std::int64_t kFloodMayGrow = 64ll << 20;
#endif
constexpr double kSlow = 3;  // alone on two cores: 0.12
constexpr std::chrono::seconds kFloodFor(kEndsFloods ? 10 : 2);

std::string BigEndian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string Frame(int type, int flags, std::uint32_t stream, const std::string& body = "") {
  return BigEndian(static_cast<std::uint32_t>(body.size()), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         BigEndian(stream, 4) + body;
}

enum FrameType { kData, kHeaders, kPriority, kReset, kSettings, kPushPromise, kPing, kGoAway, kWindow, kContinuation };
constexpr int kEndStream = 1;
constexpr int kAck = 1;
constexpr int kEndHeaders = 4;
constexpr int kPadded = 8;

std::string Literal(const std::string& text) { return std::string(1, static_cast<char>(text.size())) + text; }

// HPACK without a table.
std::string Block(const std::string& path) {
  return "\x83\x86\x04" + Literal(path) + "\x01" + Literal("localhost") + "\x0f\x10" + Literal("application/grpc") +
         std::string(1, '\0') + Literal("te") + Literal("trailers");
}

constexpr char kUnary[] = "/softmax.v1.SoftmaxService/Softmax";
constexpr char kStream[] = "/softmax.v1.SoftmaxService/SoftmaxStream";
constexpr char kInfo[] = "/softmax.v1.SoftmaxService/GetServerInfo";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

struct Attack {
  std::string name;
  // What follows; called again and again. `stream` is the next call's.
  std::function<std::string(std::uint32_t* stream)> more;
  std::string first = Frame(kSettings, kAck, 0);
  bool reads = false;  // the answers
  bool grpc_ends_it = false;
};

// The connection, in one flood after another until the server ends it or the time is over. When it ended.
std::optional<Clock::duration> Flood(const std::string& target, const Attack& attack, Clock::duration most) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const auto began = Clock::now();
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0) + attack.first;
  std::uint32_t stream = 1;
  std::optional<Clock::duration> ended;
  while (!ended && Clock::now() - began < most) {
    pollfd ready{fd, static_cast<short>(attack.reads ? POLLIN | POLLOUT : POLLOUT), 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    if ((ready.revents & POLLIN) != 0) {
      char sink[65536];
      if (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) == 0) ended = Clock::now() - began;
    }
    if ((ready.revents & (POLLERR | POLLHUP)) != 0) ended = Clock::now() - began;
    if ((ready.revents & POLLOUT) == 0) continue;
    while (bytes.size() < 65536) bytes += attack.more(&stream);
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN) ended = Clock::now() - began;
  }
  close(fd);
  return ended;
}

std::string Times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// One call after another, each followed by `rest` (a frame's type, flags and body for its stream).
std::function<std::string(std::uint32_t*)> Calls(const std::string& path, int flags,
                                                 const std::function<std::string(std::uint32_t)>& rest = nullptr) {
  const std::string block = Block(path);
  return [block, flags, rest](std::uint32_t* stream) {
    std::string frames = Frame(kHeaders, flags, *stream, block);
    if (rest != nullptr) frames += rest(*stream);
    *stream += 2;
    return frames;
  };
}

std::function<std::string(std::uint32_t*)> Always(const std::string& frames) {
  return [frames](std::uint32_t*) { return frames; };
}

std::string ResetOf(std::uint32_t stream) { return Frame(kReset, 0, stream, BigEndian(8, 4)); }

std::vector<Attack> Attacks() {
  const std::string ack = Frame(kSettings, kAck, 0);
  const std::string open = ack + Frame(kHeaders, kEndHeaders, 1, Block(kStream));
  const std::string headers = Frame(kHeaders, 0, 1, Block(kUnary));
  const std::string header = std::string(1, '\0') + Literal("a") + Literal("b");
  std::vector<Attack> attacks = {
      // What acknowledges the settings and then breaks them, gRPC ends as well.
      {"unknown methods", Calls("/x/y", kEndHeaders | kEndStream), ack, false, true},
      {"unknown methods, answers read", Calls("/x/y", kEndHeaders | kEndStream), ack, true, true},
      {"unknown methods, settings not acknowledged", Calls("/x/y", kEndHeaders | kEndStream), "", true},
      {"unknown methods with messages",
       Calls("/x/y", kEndHeaders,
             [](std::uint32_t stream) { return Frame(kData, kEndStream, stream, std::string(5, '\0')); }),
       ack, false, true},
      {"calls that stay open, settings not acknowledged", Calls(kStream, kEndHeaders), ""},
      {"unary calls without a message, settings not acknowledged", Calls(kUnary, kEndHeaders), ""},
      {"reset after a message", Calls(kUnary, kEndHeaders,
                                      [](std::uint32_t stream) {
                                        return Frame(kData, kEndStream, stream, std::string(5, '\0')) + ResetOf(stream);
                                      })},
      {"SETTINGS", Always(Frame(kSettings, 0, 0))},
      {"SETTINGS, answers read", Always(Frame(kSettings, 0, 0)), ack, true},
      {"PING", Always(Frame(kPing, 0, 0, "12345678")), ack, false, true},
      {"WINDOW_UPDATE by 1", Always(Frame(kWindow, 0, 0, BigEndian(1, 4)))},
      {"empty DATA", Always(Frame(kData, 0, 1)), open},
      {"padded DATA", Always(Frame(kData, kPadded, 1, std::string(1, '\7') + std::string(7, '\0'))), open},
      {"PRIORITY", Always(Frame(kPriority, 0, 1, BigEndian(0, 4) + "1"))},
      {"frames of an unknown type", Always(Frame(0x42, 0, 0, "x"))},
      {"RST_STREAM of one stream", Always(ResetOf(1)), open},
      {"headers that do not end", Always(Frame(kContinuation, 0, 1, Times(100, header))), ack + headers},
      {"headers that do not end, in empty frames", Always(Frame(kContinuation, 0, 1)), ack + headers},
      {"a number in the headers that does not end", Always(Frame(kContinuation, 0, 1, std::string(16000, '\xff'))),
       ack + headers, false, true},
  };
  for (const char* method : {kUnary, kStream, kInfo, kCheck, kWatch, kReflection}) {
    attacks.push_back({std::string("rapid reset of ") + method, Calls(method, kEndHeaders, ResetOf)});
  }
  return attacks;
}

std::int64_t ResidentBytesOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * getpagesize();
}

// A good client's calls, one after another: none fails, and how long they took.
class GoodClient {
 public:
  explicit GoodClient(const std::string& target)
      : thread_([this, target](const std::stop_token& stop) { Run(target, stop); }) {}

  double P99Ms() {
    for (int i = 0; i < 1000 && calls_ <= 10; ++i) std::this_thread::sleep_for(milliseconds(10));
    thread_.request_stop();
    thread_.join();
    EXPECT_GT(ms_.size(), 10u);
    std::sort(ms_.begin(), ms_.end());
    return ms_.empty() ? 0 : ms_[ms_.size() * 99 / 100];
  }

 private:
  void Run(const std::string& target, const std::stop_token& stop) {
    client::ClientOptions options;
    options.target = target;
    const auto client = client::Client::Create(options);
    ASSERT_TRUE(client.ok()) << client.status();
    const Question question = MakeQuestion({2, 100}, 1);
    while (!stop.stop_requested()) {
      const auto began = Clock::now();
      const auto answer = (*client)->Softmax(question.view(), question.options());
      ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
      ++calls_;
      EXPECT_TRUE(answer.ok() || !kEndsFloods) << answer.status();
      if (answer.ok()) {
        EXPECT_TRUE(JudgeAnswer(question, answer->data()).ok);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::vector<double> ms_;
  std::atomic<int> calls_{0};
  std::jthread thread_;
};

class Floods : public ::testing::TestWithParam<Attack> {};

TEST_P(Floods, EndWithTheirConnection) {
  const Attack& attack = GetParam();
  ServerProcess server({"--backend=cpu"});
  ASSERT_FALSE(server.target().empty()) << server.Log();
  GoodClient good(server.target());
  std::this_thread::sleep_for(milliseconds(200));
  const std::int64_t before = ResidentBytesOf(server.pid());
  std::vector<std::future<std::optional<Clock::duration>>> floods;
  for (int i = 0; i < Connections(); ++i) {
    floods.push_back(std::async(std::launch::async, [&] { return Flood(server.target(), attack, kFloodFor); }));
  }
  double slowest = 0;
  for (auto& flood : floods) {
    const auto ended = flood.get();
    if (!kEndsFloods && !ended) continue;
    ASSERT_TRUE(ended.has_value()) << "the flood goes on";
    slowest = std::max(slowest, std::chrono::duration<double>(*ended).count());
    EXPECT_LT(slowest, kSlow);
  }
  EXPECT_LT(server.PeakResidentBytes() - before, kFloodMayGrow * Connections());
  if (kEndsFloods && !attack.grpc_ends_it) {
    EXPECT_TRUE(server.LogComesToHave("ending connection ")) << server.Log();
  }
  const double p99 = good.P99Ms();
  RecordProperty("good_p99_ms", std::to_string(p99));
  if (std::getenv("SOFTMAX_TEST_PRINT") != nullptr) {
    std::printf("%-60s ended after %5.3f s, good p99 %6.2f ms, grew %4.1f MiB\n", attack.name.c_str(), slowest, p99,
                static_cast<double>(server.PeakResidentBytes() - before) / (1 << 20));
  }
  // SIGTERM ends it in time, whatever is left of the flood.
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(10000), 0) << server.Log();
}

INSTANTIATE_TEST_SUITE_P(Attacks, Floods, ::testing::ValuesIn(Attacks()), [](const auto& info) {
  std::string name = info.param.name;
  name.erase(
      std::remove_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }),
      name.end());
  return name;
});

// The guard is what ends them: without it a flood goes on.
TEST(FloodsUnguarded, GoOn) {
  ServerProcess server({"--backend=cpu", "--unsafe-testing", "--fault=unguarded"});
  ASSERT_FALSE(server.target().empty()) << server.Log();
  const Attack attack{"SETTINGS, answers read", Always(Frame(kSettings, 0, 0)), Frame(kSettings, kAck, 0), true};
  EXPECT_FALSE(Flood(server.target(), attack, std::chrono::seconds(2)).has_value());
  EXPECT_EQ(server.FindInLog("ending connection "), "") << server.Log();
}

}  // namespace
}  // namespace softmax::testing
