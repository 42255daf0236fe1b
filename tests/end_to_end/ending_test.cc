// Servers that end while calls come, break off and stream. gRPC aborts the process where anything begins on a
// completion queue that is shut down.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/late_events.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr int kRounds = 20;

// A call whose client goes in the middle of its message is handed to the server when that is seen.
TEST(Ending, HalfSentCallsMayBreakOff) {
  for (int round = 0; round < kRounds; ++round) {
    auto service = std::make_unique<Service>();
    std::vector<std::unique_ptr<Http2Client>> crowd;
    for (int i = 0; i < 20; ++i) {
      crowd.push_back(std::make_unique<Http2Client>(service->target(), 65535));
      ASSERT_TRUE(crowd.back()->connected());
      for (int call = 0; call < 4; ++call) crowd.back()->SendBody(crowd.back()->StartCall(), std::string(1, 0), false);
    }
    crowd.clear();
    service->EndAmongCalls();
  }
}

// The same call, handed out later than everything that the end of the server refuses.
TEST(Ending, ACallMayComeOutOfItsQueueLast) {
  auto service = std::make_unique<Service>();
  auto client = std::make_unique<Http2Client>(service->target(), 65535);
  client->SendBody(client->StartCall(), std::string(1, 0), false);
  client->ReadFor(50);
  HoldBackEvent(500);
  client.reset();
  EXPECT_TRUE(Eventually(&EventIsHeldBack));
  service->EndAmongCalls();
  EXPECT_TRUE(EventCameLate());
}

// Every kind of call, as many as come.
TEST(Ending, CallsOfAllKindsMayBeUnderWay) {
  std::chrono::steady_clock::duration spent{};
  for (int round = 0; round < kRounds; ++round) {
    auto service = std::make_unique<Service>();
    std::atomic<int> begun{0};
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i) {
      const auto channel = service->NewChannel();
      callers.emplace_back(
          [&, channel, client = std::shared_ptr<client::Client>(service->NewClient())](std::stop_token stop) {
            const Question question = MakeQuestion({64, 1024}, 1);
            while (!stop.stop_requested()) {
              ++begun;
              (void)client->Softmax(question.view(), question.options());
            }
          });
      callers.emplace_back([&, channel] {
        grpc::ClientContext context;
        const auto stream = v1::SoftmaxService::NewStub(channel)->SoftmaxStream(&context);
        v1::SoftmaxStreamRequest message;
        v1::Tensor& input = *message.add_requests()->mutable_input();
        input.set_dtype(v1::DATA_TYPE_FLOAT32);
        input.add_shape(4);
        input.set_data(std::string(16, 0));
        v1::SoftmaxStreamResponse answer;
        while (stream->Write(message) && stream->Read(&answer)) ++begun;
        (void)stream->Finish();
      });
      callers.emplace_back([&, channel] {
        grpc::ClientContext context;
        const auto watch = Health::NewStub(channel)->Watch(&context, HealthCheckRequest());
        HealthCheckResponse answer;
        while (watch->Read(&answer)) ++begun;
        (void)watch->Finish();
      });
    }
    EXPECT_TRUE(Eventually([&] { return begun >= 50; }));
    const auto begin = std::chrono::steady_clock::now();
    service->EndAmongCalls();
    spent += std::chrono::steady_clock::now() - begin;
  }
  // A call that is counted and never ends would cost a second each time.
  EXPECT_LT(spent, std::chrono::milliseconds(900) * kRounds);
}

}  // namespace
}  // namespace softmax::testing
