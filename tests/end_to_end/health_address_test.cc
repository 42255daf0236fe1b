// Probes: a port of their own with health and nothing else, that answers whatever happens.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace softmax::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Clock = std::chrono::steady_clock;

// A serving status, or minus the gRPC code.
int Probe(const std::shared_ptr<grpc::Channel>& channel, const char* name) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  HealthCheckRequest request;
  request.set_service(name);
  HealthCheckResponse response;
  const grpc::Status status = Health::NewStub(channel)->Check(&context, request, &response);
  return status.ok() ? static_cast<int>(response.status()) : -static_cast<int>(status.error_code());
}

void AddHealth(server::Config& config) { config.health_address = "127.0.0.1:0"; }

TEST(HealthAddress, AnswersInPlainTextBesideMutualTls) {
  const TempFolder folder;
  const client::Identity authority = client::MakeAuthority("a");
  const client::Identity identity = client::IssueFor("localhost", authority);
  Service service([&](server::Config& config) {
    AddHealth(config);
    config.tls_cert = folder.Write("cert", identity.certificate);
    config.tls_key = folder.Write("key", identity.private_key);
    config.tls_client_ca = folder.Write("ca", authority.certificate);
  });
  const auto channel = OwnChannel(service.server().health_address());
  for (const char* name : {"", "liveness", "readiness", "softmax.v1.SoftmaxService"}) {
    EXPECT_EQ(Probe(channel, name), HealthCheckResponse::SERVING) << name;
  }
  EXPECT_EQ(Probe(channel, "nobody"), -grpc::NOT_FOUND);
  EXPECT_LT(Probe(OwnChannel(service.target()), ""), 0);  // not in the clear on the main port
}

TEST(HealthAddress, HasNothingElse) {
  Service service(&AddHealth);
  const auto channel = OwnChannel(service.server().health_address());
  const auto stub = v1::SoftmaxService::NewStub(channel);
  grpc::ClientContext unary, stream, info;
  v1::SoftmaxResponse answer;
  v1::GetServerInfoResponse told;
  EXPECT_EQ(stub->Softmax(&unary, {}, &answer).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(stub->GetServerInfo(&info, {}, &told).error_code(), grpc::UNIMPLEMENTED);
  const auto open = stub->SoftmaxStream(&stream);
  v1::SoftmaxStreamResponse answers;
  EXPECT_FALSE(open->Read(&answers));
  EXPECT_EQ(open->Finish().error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(Probe(channel, ""), HealthCheckResponse::SERVING);
}

TEST(HealthAddress, LivesThroughADrainAndTellsIt) {
  ServerProcess server({"--health-address=127.0.0.1:0", "--drain-delay=2s"});
  const std::string health = server.FindInLog("health on ");
  const auto old = OwnChannel(health);
  EXPECT_EQ(Probe(old, "readiness"), HealthCheckResponse::SERVING);
  std::vector<int> seen;
  std::atomic<bool> told{false};
  std::jthread watcher([&] {
    grpc::ClientContext context;
    auto reader = Health::NewStub(OwnChannel(health))->Watch(&context, {});
    HealthCheckResponse response;
    while (reader->Read(&response)) {
      seen.push_back(response.status());
      told = true;
    }
    reader->Finish();
  });
  EXPECT_TRUE(Eventually([&] { return told.load(); }));
  server.Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return Probe(old, "readiness") != HealthCheckResponse::SERVING; }));
  // A new connection each, as probes make them.
  EXPECT_EQ(Probe(OwnChannel(health), "readiness"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Probe(OwnChannel(health), ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Probe(OwnChannel(health), "liveness"), HealthCheckResponse::SERVING);
  EXPECT_TRUE(server.Running());
  EXPECT_EQ(server.Wait(15000), 0) << server.Log();
  watcher.join();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], HealthCheckResponse::SERVING);
  EXPECT_EQ(seen[1], HealthCheckResponse::NOT_SERVING);
}

// How many epoll sets the process has; those of gRPC's epoll1 are among them where it is used.
int EpollSets(pid_t pid) {
  int sets = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    sets += std::filesystem::read_symlink(file.path(), gone) == "anon_inode:[eventpoll]" ? 1 : 0;
  }
  return sets;
}

// In an epoll set that all share a probe waits for everything that is read before it.
TEST(HealthAddress, HasSocketsThatWaitForNoOthers) {
  // What the tests before have set for this process would go before the flags.
  const char* const set = std::getenv("GRPC_POLL_STRATEGY");
  const std::string before = set == nullptr ? "" : set;
  unsetenv("GRPC_POLL_STRATEGY");
  ServerProcess apart({"--threads=1", "--health-address=127.0.0.1:0"});
  ServerProcess shared({"--threads=1", "--health-address=127.0.0.1:0", "--poller=epoll1"});
  if (!before.empty()) setenv("GRPC_POLL_STRATEGY", before.c_str(), 1);
  EXPECT_LT(EpollSets(apart.pid()), EpollSets(shared.pid()));
}

// Twice as many callers as fill the arena, each always with a request of a quarter of it.
TEST(HealthAddress, AnswersSoonWhileEverySlabIsTaken) {
  constexpr std::uint64_t kSlabs = (32 << 20) / (64 << 10);
  Service service([](server::Config& config) {
    AddHealth(config);
    config.arena_bytes = 32 << 20;
    config.max_request_bytes = config.max_response_bytes = 8 << 20;
    config.filler_threads = 1;
  });
  std::atomic<bool> stop{false};
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const auto client = service.NewClient();
      const Question question = MakeQuestion({512, 4096}, 1);
      while (!stop) (void)client->Softmax(question.view(), question.options());
    });
  }
  EXPECT_TRUE(Eventually([&] { return service.server().slabs_used() >= kSlabs * 3 / 4; }));
  // Client, server and load share the cores with whatever else runs here: the bound of 100 ms is on the median, and a
  // busy machine gets several chances.
  double median = 1e9;
  for (int attempt = 0; attempt < 4 && median >= 100; ++attempt) {
    std::vector<double> ms;
    for (int i = 0; i < 40; ++i) {
      const auto begin = Clock::now();
      EXPECT_EQ(Probe(OwnChannel(service.server().health_address()), "liveness"), HealthCheckResponse::SERVING);
      ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
      LetPass(std::chrono::milliseconds(10));  // a prober that asks a hundred times a second
    }
    std::sort(ms.begin(), ms.end());
    median = ms[ms.size() / 2];
    std::printf("health checks at overload, connection included: p50 %.1f ms, p90 %.1f ms, max %.1f ms\n", median,
                ms[ms.size() * 9 / 10], ms.back());
  }
  stop = true;
  EXPECT_LT(median, 100);
}

// Connections to the main port have every descriptor that the process may open: probes are answered all the same.
TEST(HealthAddress, AnswersWithoutDescriptors) {
  ServerProcess server({"--threads=1", "--health-address=127.0.0.1:0"});
  const std::string health = server.FindInLog("health on ");
  ASSERT_FALSE(health.empty());
  EXPECT_EQ(Probe(OwnChannel(health), ""), HealthCheckResponse::SERVING);
  const auto open =
      std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(server.pid()) + "/fd"), {});
  const rlimit few{static_cast<rlim_t>(open) + 40, static_cast<rlim_t>(open) + 40};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  std::vector<std::unique_ptr<Http2Client>> crowd;
  for (int i = 0; i < 60; ++i) crowd.push_back(std::make_unique<Http2Client>(server.target(), 65535u));
  EXPECT_TRUE(server.LogComesToHave("raise the descriptor limit"));
  // More than there are spare descriptors for; each stays.
  std::vector<std::shared_ptr<grpc::Channel>> probers;
  for (int i = 0; i < 12; ++i) {
    probers.push_back(OwnChannel(health));
    const auto begin = Clock::now();
    EXPECT_EQ(Probe(probers.back(), "liveness"), HealthCheckResponse::SERVING) << i;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2)) << i;
  }
  const std::string log = server.Log();
  EXPECT_EQ(log.find("raise the descriptor limit"), log.rfind("raise the descriptor limit"));  // said once
}

TEST(HealthAddress, ManyProbersComeAndGo) {
  Service service(&AddHealth);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < 40; ++i) {
      channels.push_back(OwnChannel(service.server().health_address()));
      EXPECT_EQ(Probe(channels.back(), "liveness"), HealthCheckResponse::SERVING);
    }
  }
}

}  // namespace
}  // namespace softmax::testing
