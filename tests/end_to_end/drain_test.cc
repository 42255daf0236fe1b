// Health, reflection, server information, and an orderly end.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/server_process.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;
using ::testing::IsSupersetOf;

// What grpcurl asks first.
TEST(Reflection, ListsTheServices) {
  for (const bool on : {true, false}) {
    Service service([on](server::Config& config) { config.reflection = on; });
    const auto stub = ServerReflection::NewStub(service.NewChannel());
    grpc::ClientContext context;
    const auto stream = stub->ServerReflectionInfo(&context);
    ServerReflectionRequest request;
    ServerReflectionResponse response;
    request.set_list_services("");
    stream->Write(request);
    EXPECT_EQ(stream->Read(&response), on);
    std::vector<std::string> names;
    for (const auto& listed : response.list_services_response().service()) names.push_back(listed.name());
    if (on) {
      EXPECT_THAT(names, IsSupersetOf(
                             {"softmax.v1.SoftmaxService", "grpc.health.v1.Health", "inference.GRPCInferenceService"}));
      request.set_file_containing_symbol("inference.GRPCInferenceService");
      ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
      EXPECT_EQ(response.file_descriptor_response().file_descriptor_proto_size(), 2);
    }
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().error_code(), on ? grpc::OK : grpc::UNIMPLEMENTED);
  }
}

TEST(UnsafeTesting, ShowsEverywhere) {
  Service service([](server::Config& config) {
    config.backend = server::Backend::kNull;
    config.unsafe_testing = true;
  });
  const auto health = Health::NewStub(service.NewChannel());
  for (const auto& [name, status] : {std::pair{"softmax.v1.SoftmaxService", HealthCheckResponse::NOT_SERVING},
                                     {"liveness", HealthCheckResponse::SERVING}}) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    ASSERT_TRUE(health->Check(&context, request, &response).ok());
    EXPECT_EQ(response.status(), status) << name;
  }
  const auto info = service.NewClient()->GetServerInfo();
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(info->unsafe_testing);
  EXPECT_EQ(info->backend, "null");
}

TEST(Drain, HealthTurnsAndEveryAcceptedRequestIsAnswered) {
  ServerProcess server({"--drain-delay=1s"});
  const auto channel = grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials());
  // Watch sees the change while requests are still served.
  std::vector<int> seen;
  std::atomic<bool> told{false};
  std::jthread watcher([&] {
    const auto stub = Health::NewStub(channel);
    grpc::ClientContext context;
    auto reader = stub->Watch(&context, {});
    HealthCheckResponse response;
    while (reader->Read(&response)) {
      seen.push_back(response.status());
      told = true;
    }
    reader->Finish();
  });
  // Before the callers keep a slow machine busy.
  EXPECT_TRUE(Eventually([&] { return told.load(); }));
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, refused{0}, lost{0}, wrong{0};
  std::vector<std::jthread> callers;
  for (int t = 0; t < 6; ++t) {
    callers.emplace_back([&, t] {
      const auto client = *client::Client::Create({.target = server.target()});
      const Question question = MakeQuestion({20 + t * 300, 50}, static_cast<std::uint64_t>(t));
      while (!stop) {
        const auto answer = client->Softmax(question.view(), question.options());
        if (answer.ok()) {
          ++answered;
          if (!JudgeAnswer(question, answer->data()).ok) ++wrong;
        } else if (absl::IsUnavailable(answer.status())) {
          ++refused;  // never accepted: it came after the drain began, or found no server
          // Leaves the server time to end.
          LetPass(std::chrono::milliseconds(5));
        } else {
          ++lost;
          ADD_FAILURE() << answer.status();
        }
      }
    });
  }
  EXPECT_TRUE(Eventually([&] { return answered > 100; }));
  const int before = answered;
  const auto signalled = std::chrono::steady_clock::now();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(15000), 0) << server.Log();
  EXPECT_GE(std::chrono::steady_clock::now() - signalled, std::chrono::seconds(1));  // drain-delay
  stop = true;
  callers.clear();
  watcher.join();
  EXPECT_GT(answered, before);  // it served on meanwhile
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(wrong, 0);
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.front(), HealthCheckResponse::SERVING);
  EXPECT_EQ(seen.back(), HealthCheckResponse::NOT_SERVING);
}

// A stream that is open, and one that is opened: what comes to them is refused, and what was accepted is answered.
TEST(Drain, WhatComesToStreamsIsRefusedAndCounted) {
  ServerProcess server(
      WithFault("late:6s", {"--threads=1", "--device-timeout=30s", "--drain-delay=1ms", "--drain-timeout=30s"}));
  const auto refused_comes_to = [&](const std::string& requests) {
    const auto refused = [&] {
      return MetricOf(server.metrics(), R"(softmax_requests_rejected_total{reason="draining"} )");
    };
    return Eventually([&] { return refused() == requests; });
  };
  const auto channel = grpc::CreateChannel(server.target(), grpc::InsecureChannelCredentials());
  const auto stub = v1::SoftmaxService::NewStub(channel);
  grpc::ClientContext watch_context, open_context, late_context;
  const auto watch = Health::NewStub(channel)->Watch(&watch_context, {});
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  v1::SoftmaxStreamRequest message;
  *message.add_requests() = RequestOfZeros({2}, 1);
  const auto open = stub->SoftmaxStream(&open_context);
  ASSERT_TRUE(open->Write(message));
  ASSERT_TRUE(Eventually([&] { return NumberOf(server, "softmax_requests_in_flight ") == 1; }));

  server.Signal(SIGTERM);
  while (watch->Read(&health)) {
  }
  ASSERT_TRUE(open->Write(message));
  EXPECT_TRUE(refused_comes_to("1"));
  const auto late = stub->SoftmaxStream(&late_context);
  v1::SoftmaxStreamResponse answers;
  EXPECT_FALSE(late->Read(&answers));
  EXPECT_EQ(late->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(refused_comes_to("2"));

  ASSERT_TRUE(open->Read(&answers));
  ASSERT_EQ(answers.responses_size(), 1);
  EXPECT_EQ(answers.responses(0).status().code(), grpc::OK) << answers.responses(0).status().message();
  EXPECT_FALSE(open->Read(&answers));
  EXPECT_EQ(open->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(server.Wait(15000), 0) << server.Log();
}

TEST(Drain, ASecondSignalEndsAtOnce) {
  ServerProcess server({"--drain-delay=60s"});
  server.Signal(SIGTERM);
  EXPECT_TRUE(server.LogComesToHave("draining: "));
  EXPECT_TRUE(server.Running());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(5000), 0) << server.Log();
}

TEST(Start, APortInUseIsOneLineAndExitCode3) {
  ServerProcess first({});
  for (const std::string& flag : {"--address=" + first.target(), "--metrics-address=" + first.metrics()}) {
    ServerProcess second({flag}, ServerProcess::MayFail());
    EXPECT_EQ(second.Wait(5000), 3) << second.Log();
    EXPECT_NE(second.Log().find("in use"), std::string::npos) << second.Log();
  }
}

TEST(Start, AWrongFlagIsNamedAndExitCode2) {
  ServerProcess server({"--max-batch-byts=1MiB"}, ServerProcess::MayFail());
  EXPECT_EQ(server.Wait(5000), 2);
  EXPECT_NE(server.Log().find("--max-batch-byts"), std::string::npos) << server.Log();
}

}  // namespace
}  // namespace softmax::testing
