#include "client/softmax_client/failure.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "softmax/v1/softmax.grpc.pb.h"

namespace softmax::client {
namespace {

// Refuses each call, with the advice that is set.
class Refusing final : public v1::SoftmaxService::Service {
 public:
  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse*) override {
    if (advice.has_value()) context->AddTrailingMetadata("grpc-retry-pushback-ms", *advice);
    return {grpc::RESOURCE_EXHAUSTED, "no"};
  }
  std::optional<std::string> advice;
};

// gRFC A6: what is no number means "do not come back", as a negative one does. (gRPC reads the trailer before it is
// seen here, and makes the most negative number of what is none.)
TEST(RetryAdvice, IsTheNumberOfMillisecondsOrNotAtAll) {
  Refusing service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto stub = v1::SoftmaxService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  using Advice = std::optional<std::int64_t>;
  const std::pair<std::optional<std::string>, Advice> cases[] = {{std::nullopt, std::nullopt},
                                                                 {"0", 0},
                                                                 {"20", 20},
                                                                 {"1000", 1000},
                                                                 {"-1", -1},
                                                                 {"", -1},
                                                                 {"soon", -1},
                                                                 {"20 ms", -1},
                                                                 {"1e3", -1},
                                                                 {"99999999999999999999", -1}};
  for (const auto& [sent, read] : cases) {
    service.advice = sent;
    grpc::ClientContext context;
    v1::GetServerInfoResponse info;
    EXPECT_EQ(stub->GetServerInfo(&context, {}, &info).error_code(), grpc::RESOURCE_EXHAUSTED);
    Advice advice = RetryAdviceIn(context);
    if (advice.has_value()) advice = std::max<std::int64_t>(*advice, -1);
    EXPECT_EQ(advice, read) << sent.value_or("nothing");
  }
}

}  // namespace
}  // namespace softmax::client
