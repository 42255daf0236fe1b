// What the unanswered requests of one connection may hold.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

constexpr std::int64_t kColumns = 262144;  // 1 MiB
constexpr char kRefused[] = R"(softmax_requests_rejected_total{reason="connection_bytes"} )";

// So many requests, each with what its call takes.
std::string LimitFor(int requests) { return std::to_string(requests * (kColumns * 4 + (16 << 10))); }
std::string LimitFlag(int requests) { return "--max-in-flight-bytes-per-connection=" + LimitFor(requests); }

// Answers come late, so that requests stay unanswered for a while.
std::vector<std::string> Flags(const std::string& late, int limit) {
  return WithFault("late:" + late,
                   {"--threads=1", "--device-timeout=30s", "--max-request-bytes=1MiB", LimitFlag(limit)});
}

v1::SoftmaxRequest MakeRequest() { return RequestOfZeros({kColumns}); }

struct Outcome {
  grpc::Status status;
  std::string pushback;  // empty: none came
};

Outcome Ask(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::SoftmaxResponse answer;
  Outcome outcome;
  outcome.status = v1::SoftmaxService::NewStub(channel)->Softmax(&context, MakeRequest(), &answer);
  const auto& trailer = context.GetServerTrailingMetadata();
  if (const auto it = trailer.find("grpc-retry-pushback-ms"); it != trailer.end()) {
    outcome.pushback = std::string(it->second.data(), it->second.size());
  }
  return outcome;
}

// Waits until `requests` are under way.
bool ComesTo(const ServerProcess& server, const std::string& requests) {
  return Eventually([&] { return MetricOf(server.metrics(), "softmax_requests_in_flight ") == requests; });
}

// Three requests of one connection are under way, and a fourth comes.
Outcome FourthOf(const ServerProcess& server, const std::shared_ptr<grpc::Channel>& channel) {
  Outcome fourth;
  std::vector<std::jthread> asking;
  for (int i = 0; i < 3; ++i) {
    asking.emplace_back([&] {
      const Outcome outcome = Ask(channel);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    });
  }
  EXPECT_TRUE(ComesTo(server, "3"));
  fourth = Ask(channel);
  return fourth;
}

TEST(ConnectionBytes, MoreAreRefusedWithLimitAndPushbackAndOthersAreServed) {
  ServerProcess server(Flags("3s", 3));
  const auto channel = OwnChannel(server.target());
  const Outcome fourth = FourthOf(server, channel);
  EXPECT_EQ(fourth.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(fourth.status.error_message(),
              ::testing::MatchesRegex("the connection's unanswered requests hold 3[0-9]{6} bytes, this one takes "
                                      "1[0-9]{6}, and max_in_flight_bytes_per_connection is " +
                                      LimitFor(3) + "; .*"));
  EXPECT_NE(fourth.pushback, "");
  EXPECT_EQ(MetricOf(server.metrics(), kRefused), "1");
  // Another connection, and this one when its requests are answered.
  EXPECT_TRUE(Ask(OwnChannel(server.target())).status.ok());
  EXPECT_TRUE(Ask(channel).status.ok());
  EXPECT_EQ(MetricOf(server.metrics(), kRefused), "1");
}

TEST(ConnectionBytes, BelowTheLimitNothingIsRefused) {
  ServerProcess server(Flags("1s", 4));
  const Outcome fourth = FourthOf(server, OwnChannel(server.target()));
  EXPECT_TRUE(fourth.status.ok()) << fourth.status.error_message();
  EXPECT_EQ(MetricOf(server.metrics(), kRefused), "0");
}

// HTTP/2 holds the rest back at the client, so that none of it is refused.
TEST(ConnectionBytes, AStreamIsReadOnlyAsFarAsItsConnectionMayHold) {
  ServerProcess server(Flags("300ms", 3));
  constexpr std::uint64_t kRequests = 12;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stream = v1::SoftmaxService::NewStub(OwnChannel(server.target()))->SoftmaxStream(&context);
  std::jthread writer([&] {
    for (std::uint64_t id = 1; id <= kRequests; ++id) {
      v1::SoftmaxStreamRequest message;
      *message.add_requests() = MakeRequest();
      message.mutable_requests(0)->set_id(id);
      EXPECT_TRUE(stream->Write(message));
    }
    stream->WritesDone();
  });
  std::uint64_t answered = 0;
  for (v1::SoftmaxStreamResponse message; stream->Read(&message);) {
    for (const v1::SoftmaxResponse& response : message.responses()) {
      EXPECT_EQ(response.status().code(), 0) << response.status().message();
      ++answered;
    }
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answered, kRequests);
  EXPECT_EQ(MetricOf(server.metrics(), kRefused), "0");
}

}  // namespace
}  // namespace softmax::testing
