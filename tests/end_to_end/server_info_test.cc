// The limits of requests that GetServerInfo tells are those that hold.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/service.h"
#include "tests/support/all_operations.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

v1::SoftmaxRequest Request(const std::vector<std::int64_t>& shape, v1::DataType type = v1::DATA_TYPE_FLOAT32) {
  v1::SoftmaxRequest request = RequestOfZeros(shape);
  request.mutable_input()->set_dtype(type);
  if (type == v1::DATA_TYPE_FLOAT16) request.mutable_input()->mutable_data()->resize(request.input().data().size() / 2);
  return request;
}

v1::SoftmaxRequest WithOutput(v1::SoftmaxRequest request, v1::DataType type) {
  request.set_output_dtype(type);
  return request;
}

v1::SoftmaxRequest WithTop(v1::SoftmaxRequest request, std::uint32_t top_k) {
  request.mutable_summary()->set_top_k(top_k);
  return request;
}

struct Limit {
  std::string field;  // of Limits
  std::string flag;
  std::vector<v1::SoftmaxRequest> beyond;  // in one message, and alone at fault
};

// Those of requests. The values go together.
std::vector<Limit> RequestLimits() {
  const auto f16 = v1::DATA_TYPE_FLOAT16;
  return {
      {"max_request_bytes", "--max-request-bytes=40002", {Request({146, 137}, f16)}},
      {"max_response_bytes",
       "--max-response-bytes=50002",
       {WithOutput(Request({133, 47}, f16), v1::DATA_TYPE_FLOAT64)}},
      {"max_rank", "--max-rank=3", {Request({1, 1, 1, 2})}},
      {"max_rows", "--max-rows=301", {Request({302, 1})}},
      {"max_columns", "--max-columns=2003", {Request({1, 2004})}},
      {"max_top_k", "--max-top-k=7", {WithTop(Request({1, 100}), 8)}},
      {"max_requests_per_stream_message", "--max-requests-per-stream-message=5",
       std::vector<v1::SoftmaxRequest>(6, Request({1, 1}))},
  };
}

class ServerInfo : public ::testing::Test {
 protected:
  static std::vector<std::string> Flags() {
    std::vector<std::string> flags = WithFault("late:300ms", {"--threads=1", "--max-in-flight-per-stream=1"});
    for (const Limit& limit : RequestLimits()) flags.push_back(limit.flag);
    return flags;
  }

  // How a stream ends that carries these requests in one message.
  grpc::Status Stream(const std::vector<v1::SoftmaxRequest>& requests, v1::SoftmaxStreamResponse* answer) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stream = stub_->SoftmaxStream(&context);
    v1::SoftmaxStreamRequest message;
    for (const v1::SoftmaxRequest& request : requests) *message.add_requests() = request;
    stream->Write(message);
    stream->WritesDone();
    while (stream->Read(answer)) {
    }
    return stream->Finish();
  }

  ServerProcess server_{Flags()};
  std::unique_ptr<v1::SoftmaxService::Stub> stub_ =
      v1::SoftmaxService::NewStub(grpc::CreateChannel(server_.target(), grpc::InsecureChannelCredentials()));
};

TEST_F(ServerInfo, TellsWhatItIsAndAllows) {
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  const grpc::Status status = stub_->GetServerInfo(&context, {}, &info);
  ASSERT_TRUE(status.ok()) << status.error_message() << server_.Log();
  EXPECT_EQ(info.dtypes_size(), 4);
  EXPECT_THAT(info.operations(), ::testing::ElementsAreArray(AllOperations<v1::Operation>()));
  EXPECT_FALSE(info.backend().empty());
  EXPECT_GE(info.devices_size(), 1);
  EXPECT_TRUE(info.unsafe_testing());
  EXPECT_EQ(info.limits().max_rank(), 3u);
  EXPECT_EQ(info.limits().max_in_flight_per_stream(), 1u);
}

TEST_F(ServerInfo, ARequestOneBeyondALimitIsRefusedByItsName) {
  for (const Limit& limit : RequestLimits()) {
    SCOPED_TRACE(limit.flag);
    v1::SoftmaxStreamResponse answer;
    const grpc::Status status = Stream(limit.beyond, &answer);
    if (limit.beyond.size() > 1) {
      EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
      EXPECT_THAT(status.error_message(), HasSubstr("(" + limit.field + ")"));
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(answer.responses_size(), 1);
    EXPECT_EQ(answer.responses(0).status().code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(answer.responses(0).status().message(), HasSubstr("(" + limit.field + ")"));
    grpc::ClientContext context;
    v1::SoftmaxResponse unary;
    EXPECT_THAT(stub_->Softmax(&context, limit.beyond[0], &unary).error_message(), HasSubstr("(" + limit.field + ")"));
  }
}

// What would be refused at once is read only when the request before it has been answered, which takes 300 ms.
TEST_F(ServerInfo, AStreamIsReadNoFurtherThanItsRequestsInFlight) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto stream = stub_->SoftmaxStream(&context);
  for (const std::uint64_t id : {1, 2}) {
    v1::SoftmaxStreamRequest message;
    *message.add_requests() = id == 1 ? Request({1, 1}) : Request({1, 2004});
    message.mutable_requests(0)->set_id(id);
    ASSERT_TRUE(stream->Write(message));
  }
  stream->WritesDone();
  std::vector<std::uint64_t> ids;
  for (v1::SoftmaxStreamResponse answer; stream->Read(&answer);) {
    for (const v1::SoftmaxResponse& one : answer.responses()) ids.push_back(one.id());
  }
  EXPECT_THAT(ids, ::testing::ElementsAre(1, 2));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace softmax::testing
