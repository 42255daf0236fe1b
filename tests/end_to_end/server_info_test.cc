// Every limit that GetServerInfo tells is the one that was set, and the one that holds.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/rpc/accept/channel_settings.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/service.h"
#include "tests/support/all_operations.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

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
  std::string flag;   // with a value that no other has
  std::uint64_t told;
  std::vector<v1::SoftmaxRequest> beyond;  // in one message, and alone at fault; none: what is beyond waits
};

// All that Limits has. The values go together.
std::vector<Limit> AllLimits() {
  const auto f16 = v1::DATA_TYPE_FLOAT16;
  return {
      {"max_request_bytes", "--max-request-bytes=40002", 40002, {Request({146, 137}, f16)}},
      {"max_response_bytes",
       "--max-response-bytes=50002",
       50002 + server::kHeaderAllowanceBytes,
       {WithOutput(Request({133, 47}, f16), v1::DATA_TYPE_FLOAT64)}},
      {"max_rank", "--max-rank=3", 3, {Request({1, 1, 1, 2})}},
      {"max_rows", "--max-rows=301", 301, {Request({302, 1})}},
      {"max_columns", "--max-columns=2003", 2003, {Request({1, 2004})}},
      {"max_top_k", "--max-top-k=7", 7, {WithTop(Request({1, 100}), 8)}},
      {"max_requests_per_stream_message", "--max-requests-per-stream-message=5", 5,
       std::vector<v1::SoftmaxRequest>(6, Request({1, 1}))},
      {"max_in_flight_per_stream", "--max-in-flight-per-stream=1", 1, {}},
      {"max_concurrent_streams_per_connection", "--max-concurrent-streams=11", 11, {}},
      {"max_connections", "--max-connections=13", 13, {}},
      {"max_unread_bytes_per_connection", "--max-unread-bytes-per-connection=300001", 300001, {}},
      {"max_queued_bytes", "--max-queued-bytes=400003", 400003, {}},
      {"max_queued_requests", "--max-queued-requests=17", 17, {}},
      {"max_batch_bytes", "--max-batch-bytes=100001", 100001, {}},
      {"max_batch_requests", "--max-batch-requests=9", 9, {}},
      {"arena_bytes", "--arena-bytes=1114112", 1114112, {}},
      {"max_queue_delay_us", "--max-queue-delay=1234us", 1234, {}},
      {"answer_timeout_ms", "--answer-timeout=4321ms", 4321, {}},
  };
}

class ServerInfo : public ::testing::Test {
 protected:
  static std::vector<std::string> Flags() {
    std::vector<std::string> flags = WithFault("late:300ms", {"--threads=1"});
    for (const Limit& limit : AllLimits()) flags.push_back(limit.flag);
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

TEST_F(ServerInfo, TellsEveryLimitAsItWasSet) {
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  const grpc::Status status = stub_->GetServerInfo(&context, {}, &info);
  ASSERT_TRUE(status.ok()) << status.error_message() << server_.Log();
  EXPECT_EQ(info.dtypes_size(), 4);
  EXPECT_THAT(info.operations(), ::testing::ElementsAreArray(AllOperations<v1::Operation>()));
  EXPECT_FALSE(info.backend().empty());
  EXPECT_GE(info.devices_size(), 1);
  EXPECT_TRUE(info.unsafe_testing());
  const v1::Limits& limits = info.limits();
  const auto* const reflection = limits.GetReflection();
  std::map<std::string, std::uint64_t> told;
  for (int i = 0; i < limits.GetDescriptor()->field_count(); ++i) {
    const auto* const field = limits.GetDescriptor()->field(i);
    told[std::string(field->name())] = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32
                                           ? reflection->GetUInt32(limits, field)
                                           : reflection->GetUInt64(limits, field);
  }
  std::map<std::string, std::uint64_t> set;
  for (const Limit& limit : AllLimits()) set[limit.field] = limit.told;
  EXPECT_THAT(told, UnorderedElementsAreArray(set));
}

TEST_F(ServerInfo, ARequestOneBeyondALimitIsRefusedByItsName) {
  for (const Limit& limit : AllLimits()) {
    if (limit.beyond.empty()) continue;
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
