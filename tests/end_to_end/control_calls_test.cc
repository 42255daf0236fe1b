// Calls that bring no tensor: what they take, what they say, and that nobody can keep others from them.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "inference/inference.grpc.pb.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/http2_client.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A unary call of any method with one message.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::string& message) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Slice slice(message);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TEST(ControlCalls, AnUnknownMethodIsNamedAndSoIsWhatThereIs) {
  Service service([](server::Config& config) { config.health_address = "127.0.0.1:0"; });
  for (const std::string& target : {service.target(), service.server().health_address()}) {
    const auto channel = OwnChannel(target);
    for (const char* method : {"/inference.GRPCInferenceService/ModelInfers", "/softmax.v1.SoftmaxService/Softmaxx",
                               "/x", "/grpc.health.v1.Health/List"}) {
      const grpc::Status status = Call(channel, method, "");
      EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
      EXPECT_THAT(status.error_message(), HasSubstr(std::string("method: ") + method + " is not known here"));
      EXPECT_THAT(status.error_message(), HasSubstr("grpc.health.v1.Health"));
    }
    const grpc::Status status = Call(channel, "/" + std::string(5000, 'x'), "");
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
    EXPECT_LT(status.error_message().size(), 400u);
  }
}

TEST(ControlCalls, ARepeatedLargeMessageEndsTheConnection) {
  Service service;
  HealthCheckRequest request;
  request.set_service(std::string(1 << 20, 'x'));
  const auto channel = OwnChannel(service.target());
  const std::string message = request.SerializeAsString();
  EXPECT_EQ(Call(channel, "/grpc.health.v1.Health/Check", message).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Call(channel, "/grpc.health.v1.Health/Check", message).error_code(), grpc::UNAVAILABLE);
}

// Whatever repeats a caller's text in an error escapes it and cuts it.
TEST(ControlCalls, ErrorsRepeatNoControlCharacters) {
  Service service;
  const auto channel = OwnChannel(service.target());
  const std::string text = "x\x1b[31m" + std::string(1000, 'y');
  const auto expect_safe = [](const std::string& error) {
    EXPECT_THAT(error, AllOf(HasSubstr("x\\u001b[31myyy"), Not(HasSubstr("\x1b"))));
    EXPECT_LT(error.size(), 400u);
  };
  HealthCheckRequest check;
  check.set_service(text);
  expect_safe(Call(channel, "/grpc.health.v1.Health/Check", check.SerializeAsString()).error_message());
  inference::ModelMetadataRequest model;
  model.set_name(text);
  expect_safe(
      Call(channel, "/inference.GRPCInferenceService/ModelMetadata", model.SerializeAsString()).error_message());
  inference::ModelInferRequest infer;
  infer.set_model_name(text);
  expect_safe(Call(channel, "/inference.GRPCInferenceService/ModelInfer", infer.SerializeAsString()).error_message());

  grpc::ClientContext context;
  const auto stub = grpc::reflection::v1alpha::ServerReflection::NewStub(channel);
  const auto stream = stub->ServerReflectionInfo(&context);
  grpc::reflection::v1alpha::ServerReflectionRequest file, symbol;
  file.set_file_by_filename(text);
  symbol.set_file_containing_symbol(text);
  for (const auto& request : {file, symbol}) {
    grpc::reflection::v1alpha::ServerReflectionResponse response;
    ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
    expect_safe(response.error_response().error_message());
  }
  context.TryCancel();
}

TEST(ControlCalls, AQuestionThatIsNoMessageIsNamed) {
  Service service;
  const grpc::Status status = Call(OwnChannel(service.target()), "/grpc.health.v1.Health/Check", "\x0a\x7f");
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("grpc.health.v1.HealthCheckRequest"));
}

// A silent stream and a connection without calls, both with a client's keepalive.
TEST(ControlCalls, PingsMayComeAsOftenAsTheFlagSays) {
  const std::string ping("\0\0\x8\6\0\0\0\0\0softmax!", 17);
  for (const bool with_call : {false, true}) {
    for (const int interval_ms : {50, 60'000}) {
      Service service(
          [&](server::Config& config) { config.min_ping_interval = std::chrono::milliseconds(interval_ms); });
      Http2Client client(service.target(), 65535u);
      if (with_call) client.StartCall();
      for (int i = 0; i < 8; ++i) {
        client.SendRaw(ping);
        client.ReadFor(70);
      }
      EXPECT_EQ(client.ClosedWithin(500), interval_ms > 1000) << with_call;
    }
  }
}

// Connections that stay on the health port make room for those that come.
TEST(ControlCalls, NobodyHoldsThePlacesOfTheHealthPort) {
  Service service([](server::Config& config) { config.health_address = "127.0.0.1:0"; });
  const std::string& target = service.server().health_address();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  std::vector<std::unique_ptr<Http2Client>> silent;
  for (int i = 0; i < 70; ++i) {
    if (i % 2 == 0) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      watches.push_back(Health::NewStub(OwnChannel(target))->Watch(contexts.back().get(), {}));
      HealthCheckResponse response;
      EXPECT_TRUE(watches.back()->Read(&response)) << i;
    } else {
      silent.push_back(std::make_unique<Http2Client>(target, 65535u));
    }
  }
  for (int i = 0; i < 10; ++i) {
    const auto channel = OwnChannel(target);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    HealthCheckResponse response;
    const grpc::Status status = Health::NewStub(channel)->Check(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  for (const auto& context : contexts) context->TryCancel();
}

}  // namespace
}  // namespace softmax::testing
