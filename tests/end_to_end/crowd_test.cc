// Crowds of bad clients beside good ones: slow senders, readers that never read, storms of connections.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/good_client.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/loopback.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCrowd = 200;
constexpr auto kGoodFor = std::chrono::milliseconds(1500);
constexpr std::int64_t kUnderWay = 20;  // bytes sent, clients that do not read, or connections: an attack has begun
// A machine that does other things too is given several chances, and this much beside the factor of two.
constexpr int kAttempts = 3;
constexpr double kSlackMs = 10;

// AddressSanitizer keeps freed memory back, so that growth says nothing there.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kMayGrow = INT64_MAX;
#else
constexpr std::int64_t kMayGrow = 128ll << 20;
#endif

double Milliseconds(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

// The 99th percentile of a good client's calls.
double GoodP99Ms(const Service& service) {
  GoodClient good(service.target());
  LetPass(kGoodFor);
  return good.P99Ms();
}

// Good callers' p99 beside the bad ones is at most twice that without them. `done`: what the attack has done so far.
void ExpectHardlySlower(const Service& service, const char* what, const std::atomic<std::int64_t>& done,
                        const std::function<void(std::stop_token)>& attack) {
  double before = 0, beside = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    before = GoodP99Ms(service);
    {
      const std::int64_t until = done + kUnderWay;
      std::jthread bad([&](std::stop_token stop) { attack(stop); });
      EXPECT_TRUE(Eventually([&] { return done >= until; }));
      beside = GoodP99Ms(service);
    }
    std::printf("%s: good callers' p99 %.2f ms without, %.2f ms beside\n", what, before, beside);
    if (beside <= 2 * before + kSlackMs) return;
  }
  ADD_FAILURE() << what << ": p99 " << beside << " ms instead of " << before;
}

std::string LargeRequest(std::int64_t columns) { return GrpcFrame(RequestOfZeros({columns}).SerializeAsString()); }

// 200 connections with 4 calls each, each call's megabyte sent byte by byte.
TEST(Crowd, SlowSendersCostOthersNothing) {
  Service service;
  const std::string frame = LargeRequest(256 << 10);
  const std::int64_t resident = ResidentBytes();
  std::vector<std::unique_ptr<Http2Client>> crowd;
  std::vector<std::pair<Http2Client*, std::uint32_t>> calls;
  for (int i = 0; i < kCrowd; ++i) {
    crowd.push_back(std::make_unique<Http2Client>(service.target(), 65535));
    ASSERT_TRUE(crowd.back()->connected());
    for (int call = 0; call < 4; ++call) calls.emplace_back(crowd.back().get(), crowd.back()->StartCall());
  }
  std::size_t rounds = 0;
  std::atomic<std::int64_t> sent{0};
  ExpectHardlySlower(service, "200 slow senders", sent, [&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      for (const auto& [client, stream] : calls) {
        client->SendBody(stream, frame.substr(rounds, 1), false);
        ++sent;
        if (stop.stop_requested()) return;
      }
      ++rounds;
      LetPass(std::chrono::milliseconds(500));
    }
  });
  EXPECT_GT(rounds, 0u);
  EXPECT_LT(ResidentBytes() - resident, kMayGrow);
  EXPECT_EQ(service.server().slabs_used(), 0u);  // what has not come whole takes no room
}

// 40 clients that send 11 of 12 MiB and then stop, beside good callers. How much more memory they made the server hold.
std::int64_t GrownByHalfSentMessages(const Service& service) {
  const std::string most = LargeRequest(3 << 20).substr(0, 11 << 20);
  const Question question = MakeQuestion({1000, 1000}, 1);
  malloc_trim(0);  // what an earlier test left would be used again
  const std::int64_t before = ResidentBytes();
  std::vector<std::unique_ptr<Http2Client>> crowd;
  for (int i = 0; i < 40; ++i) {
    crowd.push_back(std::make_unique<Http2Client>(service.target(), 65535));
    const std::uint32_t stream = crowd.back()->StartCall();
    crowd.back()->ReadFor(2);
    crowd.back()->SendBody(stream, most, false);
    const absl::Status good = service.NewClient()->Softmax(question.view(), question.options()).status();
    EXPECT_TRUE(good.ok()) << good;
  }
  return ResidentBytes() - before;
}

TEST(Crowd, HalfSentMessagesHoldNoMoreThanTheQuota) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer keeps freed memory back";
#endif
  std::int64_t grown = 0, without = 0;
  {
    Service service([](server::Config& config) { config.memory_quota = 128 << 20; });
    grown = GrownByHalfSentMessages(service);
  }
  {
    // What the quota is for.
    Service service([](server::Config& config) { config.memory_quota = 4ull << 30; });
    without = grown + GrownByHalfSentMessages(service);
  }
  std::printf("440 MiB in messages that never end: %ld MiB more with a quota of 128 MiB, %ld MiB without\n",
              static_cast<long>(grown >> 20), static_cast<long>(without >> 20));
  EXPECT_LT(grown, 256ll << 20);
  EXPECT_GT(without, 300ll << 20);
}

// 200 clients that take an answer of 128 KiB and never read it, their windows shut. Counts those that have asked.
std::vector<std::unique_ptr<Http2Client>> NeverReading(const Service& service, std::atomic<std::int64_t>* asked) {
  const std::string frame = LargeRequest(32 << 10);
  std::vector<std::unique_ptr<Http2Client>> crowd;
  for (int i = 0; i < kCrowd; ++i) {
    crowd.push_back(std::make_unique<Http2Client>(service.target(), 0));
    const std::uint32_t stream = crowd.back()->StartCall();
    crowd.back()->ReadFor(5);
    EXPECT_TRUE(crowd.back()->SendBody(stream, frame, true));
    ++*asked;
  }
  return crowd;
}

TEST(Crowd, ClientsThatNeverReadCostOthersNothing) {
  Service service([](server::Config& config) { config.answer_timeout = std::chrono::seconds(1); });
  std::vector<std::unique_ptr<Http2Client>> crowd;
  std::atomic<std::int64_t> asked{0};
  ExpectHardlySlower(service, "200 clients that never read", asked, [&](std::stop_token) {
    auto next = NeverReading(service, &asked);
    std::move(next.begin(), next.end(), std::back_inserter(crowd));
  });
  // All that they held is back, though they are still there.
  EXPECT_TRUE(Eventually([&] { return service.server().slabs_used() == 0; }, std::chrono::seconds(20)));
}

// A connection from an address of its own that is reset at once: the attacker's ports do not run out.
bool ConnectAndReset(int port, std::uint32_t source) {
  const int fd = StreamSocket();
  const linger reset{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  sockaddr_in from = LoopbackAt(0);
  from.sin_addr.s_addr = htonl(source);
  const bool connected =
      bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0 && ConnectToLoopback(fd, port);
  close(fd);
  return connected;
}

TEST(Crowd, AStormOfConnectionsIsWeathered) {
  Service service;
  const int port = PortOf(service.target());
  const std::int64_t resident = ResidentBytes();
  std::atomic<std::int64_t> connected{0};
  std::atomic<std::int64_t> ms{0};
  ExpectHardlySlower(service, "connections that come and go", connected, [&](std::stop_token stop) {
    const auto begin = Clock::now();
    // 5,000 a second: as many as leave the one or two cores here to the others.
    for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
      if (ConnectAndReset(port, 0x7f000002u + i % 0xfffff0u)) ++connected;
      if (i % 50 == 49) LetPass(begin + (i + 1) * std::chrono::microseconds(200) - Clock::now());
    }
    ms += static_cast<std::int64_t>(Milliseconds(Clock::now() - begin));
  });
  std::printf("%ld connections at %ld a second\n", static_cast<long>(connected.load()),
              static_cast<long>(connected * 1000 / std::max<std::int64_t>(ms, 1)));
  EXPECT_GT(connected, 500);
  // Without holding back, then a new client.
  const auto until = Clock::now() + std::chrono::seconds(2);
  std::int64_t flood = 0;
  for (std::uint32_t i = 0; Clock::now() < until; ++i) flood += ConnectAndReset(port, 0x7f100002u + i % 0xeffff0u);
  const auto begin = Clock::now();
  const Question question = MakeQuestion({4}, 1);
  EXPECT_TRUE(service.NewClient()->Softmax(question.view(), question.options()).ok());
  std::printf("a flood of %ld connections a second; a new client is then served in %.1f ms\n",
              static_cast<long>(flood / 2), Milliseconds(Clock::now() - begin));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_LT(ResidentBytes() - resident, kMayGrow);
}

// Callers that always have the same number of calls under way on each of their connections, and read every answer.
class BusyCallers {
 public:
  struct Ask {
    std::string method;
    std::string message;
  };

  BusyCallers(const Service& service, int connections, int in_flight, const std::vector<Ask>& asks) {
    for (int i = 0; i < connections; ++i) {
      const auto channel = service.NewChannel();
      for (int j = 0; j < in_flight; ++j) {
        calls_.push_back(std::make_unique<Call>(channel, asks[calls_.size() % asks.size()], &queue_));
      }
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~BusyCallers() {
    stop_ = true;
    thread_.join();
  }

  std::int64_t answered(grpc::StatusCode code) const { return answered_[code]; }

 private:
  struct Call {
    Call(const std::shared_ptr<grpc::Channel>& channel, const Ask& ask, grpc::CompletionQueue* queue)
        : stub(channel), method(ask.method), queue(queue) {
      const grpc::Slice slice(ask.message);
      request = grpc::ByteBuffer(&slice, 1);
      Start();
    }
    void Start() {
      reader.reset();  // it lies in the memory of its call
      context.emplace();
      reader = stub.PrepareUnaryCall(&*context, method, request, queue);
      reader->StartCall();
      reader->Finish(&answer, &status, this);
    }

    grpc::GenericStub stub;
    const std::string method;
    grpc::CompletionQueue* const queue;
    grpc::ByteBuffer request, answer;
    grpc::Status status;
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
  };

  void Run() {
    std::size_t open = calls_.size();
    void* tag = nullptr;
    bool ok = false;
    while (open > 0 && queue_.Next(&tag, &ok)) {
      auto* const call = static_cast<Call*>(tag);
      ++answered_[call->status.error_code()];
      if (stop_) {
        --open;
      } else {
        call->Start();
      }
    }
  }

  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::array<std::atomic<std::int64_t>, 17> answered_{};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr char kSoftmax[] = "/softmax.v1.SoftmaxService/Softmax";

// Two connections, one for each queue thread, of a caller whose every request is wrong, or right.
double GoodP99BesideMs(const Service& service, const std::string& message, grpc::StatusCode code) {
  const BusyCallers busy(service, 2, 64, {{kSoftmax, message}});
  EXPECT_TRUE(Eventually([&] { return busy.answered(code) > 500; }));
  const std::int64_t before = busy.answered(code);
  const double p99 = GoodP99Ms(service);
  const std::int64_t answered = busy.answered(code) - before;
  std::printf("beside %ld answers of code %d: good callers' p99 %.2f ms\n", static_cast<long>(answered), code, p99);
  EXPECT_GT(answered, 1000);
  return p99;
}

TEST(Crowd, RefusedRequestsCostOthersNoMoreThanGoodOnes) {
  Service service;
  const std::string good = LargeRequest(16).substr(5);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double beside_good = GoodP99BesideMs(service, good, grpc::OK);
    const double beside_refused = GoodP99BesideMs(service, good + "x", grpc::INVALID_ARGUMENT);
    if (beside_refused <= 2 * beside_good + kSlackMs) return;
  }
  ADD_FAILURE() << "refused requests slow others more than twice as much as good ones";
}

// They are paced, also on the serving port: 4 a millisecond and queue thread.
TEST(Crowd, CallsThatBringNoTensorWaitBehindThoseThatDo) {
  Service service([](server::Config& config) { config.threads = 1; });
  double before = 0, beside = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    before = GoodP99Ms(service);
    const BusyCallers busy(
        service, 8, 16,
        {{"/grpc.health.v1.Health/Check", ""},
         {"/softmax.v1.SoftmaxService/GetServerInfo", ""},
         {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\0", 2)}});
    EXPECT_TRUE(Eventually([&] { return busy.answered(grpc::OK) > 1000; }));
    const auto began = Clock::now();
    const std::int64_t earlier = busy.answered(grpc::OK);
    beside = GoodP99Ms(service);
    const double a_ms = static_cast<double>(busy.answered(grpc::OK) - earlier) / Milliseconds(Clock::now() - began);
    std::printf("beside %.1f control calls a millisecond: good callers' p99 %.2f ms, %.2f ms without\n", a_ms, beside,
                before);
    EXPECT_GT(a_ms, 0.1);
    EXPECT_LT(a_ms, 4 * 1.2);
    if (beside <= 3 * before + kSlackMs) return;
  }
  ADD_FAILURE() << "p99 " << beside << " ms instead of " << before;
}

// Connections take turns: 4,096 Checks that wait on 64 connections cost a probe 65 turns, not 4,096.
TEST(Crowd, AProbeDoesNotWaitForTheCallsOfOthers) {
  Service service([](server::Config& config) { config.threads = 1; });
  const auto stub = grpc::health::v1::Health::NewStub(service.NewChannel());
  double median = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const BusyCallers busy(service, 64, 64, {{"/grpc.health.v1.Health/Check", ""}});
    EXPECT_TRUE(Eventually([&] { return busy.answered(grpc::OK) > 5000; }));
    std::vector<double> ms;
    for (int i = 0; i < 20; ++i) {
      grpc::ClientContext context;
      grpc::health::v1::HealthCheckResponse response;
      const auto begin = Clock::now();
      const grpc::Status status = stub->Check(&context, {}, &response);
      ms.push_back(Milliseconds(Clock::now() - begin));
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
    std::sort(ms.begin(), ms.end());
    median = ms[ms.size() / 2];
    std::printf("a probe beside 4,096 waiting Checks: p50 %.1f ms, max %.1f ms\n", median, ms.back());
    if (median <= 100) return;
  }
  ADD_FAILURE() << "a probe takes " << median << " ms";
}

std::string Ask(const std::string& target, const std::string& bytes) {
  const int fd = ConnectedToLoopback(PortOf(target));
  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string all;
  char buffer[512];
  for (pollfd ready{fd, POLLIN, 0}; poll(&ready, 1, 5000) > 0;) {
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got <= 0) break;
    all.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  return all;
}

TEST(Crowd, OtherProtocolsAreToldWhatThisIs) {
  Service service;
  EXPECT_NE(Ask(service.target(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n").find("speaks gRPC"), std::string::npos);
  EXPECT_EQ(Ask(service.target(), std::string(3000, '\x80')), "");
}

TEST(Crowd, GiantHeadersEndTheirCallOnly) {
  Service service;
  const auto stub = v1::SoftmaxService::NewStub(service.NewChannel());
  for (const std::size_t bytes : {20u << 10, 1u << 20, 16u << 20}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata("x-large", std::string(bytes, 'a'));
    v1::SoftmaxResponse answer;
    EXPECT_FALSE(stub->Softmax(&context, {}, &answer).ok()) << bytes;
  }
  const Question question = MakeQuestion({4}, 1);
  EXPECT_TRUE(service.NewClient()->Softmax(question.view(), question.options()).ok());
}

}  // namespace
}  // namespace softmax::testing
