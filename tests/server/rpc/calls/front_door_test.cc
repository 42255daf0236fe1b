#include "server/rpc/calls/front_door.h"

#include <absl/strings/escaping.h>
#include <gmock/gmock.h>
#include <grpc/byte_buffer.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "softmax/v1/softmax.pb.h"
#include "tests/server/batching/fakes.h"
#include "tests/support/collector.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// echo -n secret | sha256sum
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

// What the front door sees of a call.
class FakeCall {
 public:
  explicit FakeCall(std::string authorization = "", std::string traceparent = "")
      : authorization_(std::move(authorization)), traceparent_(std::move(traceparent)) {}
  ClientMetadata client_metadata() const {
    ++metadata_reads;
    ClientMetadata metadata;
    if (!authorization_.empty()) metadata.emplace("authorization", authorization_);
    if (!traceparent_.empty()) metadata.emplace("traceparent", traceparent_);
    return metadata;
  }
  std::string peer() const {
    ++peer_reads;
    return "fd:1";
  }

  mutable int metadata_reads = 0;
  mutable int peer_reads = 0;

 private:
  const std::string authorization_;
  const std::string traceparent_;
};

class FakeRecorder final : public Recorder {
 public:
  void RequestFinished(const RequestSample& sample) override { finished.push_back(sample); }
  void RequestRefused(RefuseReason reason) override { refused.push_back(reason); }
  void BatchFinished(const BatchSample&) override {}
  void Add(Counter, std::uint64_t) override {}
  void InTrace(const RequestSample&, std::string_view trace_id) override { traces.emplace_back(trace_id); }

  std::vector<std::string> traces;
  std::vector<RequestSample> finished;
  std::vector<RefuseReason> refused;
};

// A received message, compressed or said to be.
class Message {
 public:
  explicit Message(const std::string& bytes, grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes.data(), bytes.size());
    buffer_ = grpc_raw_compressed_byte_buffer_create(&slice, 1, compression);
    grpc_slice_unref(slice);
  }
  ~Message() { grpc_byte_buffer_destroy(buffer_); }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  const grpc_byte_buffer* get() const { return buffer_; }

 private:
  grpc_byte_buffer* buffer_;
};

v1::SoftmaxRequest TwoNumbers(std::uint64_t id) {
  v1::SoftmaxRequest request;
  request.set_id(id);
  request.mutable_input()->set_dtype(v1::DATA_TYPE_FLOAT32);
  request.mutable_input()->add_shape(2);
  request.mutable_input()->set_data(std::string(8, '\0'));
  return request;
}

class FrontDoorTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kArenaBytes = 64u << 10;

  FrontDoor NewDoor() { return FrontDoor(state_, recorder_, /*server=*/0); }
  absl::Status Read(FrontDoor& door, const Message& message, DecodedRequest* request) {
    return door.Decoded(FrontDoor::Decode(message.get(), door.LimitsAtOnce(), request));
  }
  // From here on callers need the token "secret".
  void RequireToken() {
    auto tokens = Tokens::Load(folder_.Write("tokens", kSecret));
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    tokens_ = std::move(*tokens);
    state_.tokens = tokens_.get();
  }

  const softmax::testing::TempFolder folder_;
  std::unique_ptr<Tokens> tokens_;
  testing::TestMemory memory_{kArenaBytes};
  Arena arena_{memory_.data(), kArenaBytes, 4096};
  Backlog backlog_{{}, arena_};
  Connections connections_{{}};
  ServiceState state_{arena_, backlog_, connections_};
  FakeRecorder recorder_;
};

TEST_F(FrontDoorTest, WithoutTokensEverybodyComesInAndNobodyIsAsked) {
  FrontDoor door = NewDoor();
  const FakeCall call;
  EXPECT_TRUE(door.Enter(call).ok());
  EXPECT_TRUE(door.Authorize(call).ok());
  EXPECT_EQ(call.metadata_reads, 0);
  EXPECT_THAT(recorder_.refused, IsEmpty());
}

TEST_F(FrontDoorTest, ADrainRefusesRequestsAndCountsThem) {
  RequireToken();
  FrontDoor door = NewDoor();
  const FakeCall call("Bearer secret");
  EXPECT_TRUE(door.Enter(call).ok());
  state_.draining = true;
  EXPECT_EQ(door.Enter(call), absl::UnavailableError("the server is draining; another replica will serve"));
  EXPECT_EQ(door.RefuseDraining(), DrainingError());
  EXPECT_THAT(recorder_.refused, ElementsAre(RefuseReason::kDraining, RefuseReason::kDraining));
  EXPECT_TRUE(door.Authorize(call).ok());  // GetServerInfo and reflection go on
}

TEST_F(FrontDoorTest, WhoHasNoGoodTokenIsRefusedAndCounted) {
  RequireToken();
  FrontDoor door = NewDoor();
  EXPECT_EQ(door.Enter(FakeCall("Bearer secret")), absl::OkStatus());
  EXPECT_THAT(recorder_.refused, IsEmpty());
  EXPECT_EQ(door.Enter(FakeCall()).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(door.Enter(FakeCall("Bearer other")).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(door.Authorize(FakeCall()).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(recorder_.refused,
              ElementsAre(RefuseReason::kUnauthorized, RefuseReason::kUnauthorized, RefuseReason::kUnauthorized));
}

TEST_F(FrontDoorTest, AGoodMessageIsRead) {
  FrontDoor door = NewDoor();
  DecodedRequest request;
  EXPECT_EQ(Read(door, Message(TwoNumbers(7).SerializeAsString()), &request), absl::OkStatus());
  EXPECT_EQ(request.id, 7u);
  EXPECT_EQ(request.spec.input_bytes(), 8u);
  EXPECT_THAT(recorder_.refused, IsEmpty());
}

TEST_F(FrontDoorTest, WhatCannotBeReadIsRefusedAsInvalid) {
  FrontDoor door = NewDoor();
  const std::string bytes = TwoNumbers(7).SerializeAsString();
  DecodedRequest request;
  EXPECT_EQ(door.RefuseWithoutMessage(), absl::InvalidArgumentError("message: is absent; must be there once"));
  for (const auto& [compression, name] : {std::pair{GRPC_COMPRESS_GZIP, "gzip"},
                                          {GRPC_COMPRESS_DEFLATE, "deflate"},
                                          {GRPC_COMPRESS_ALGORITHMS_COUNT, "unknown"}}) {
    EXPECT_EQ(Read(door, Message(bytes, compression), &request),
              absl::UnimplementedError(
                  std::string("grpc-encoding: ") + name +
                  " is not accepted; only identity is accepted: the client must send its messages uncompressed"));
  }
  EXPECT_EQ(Read(door, Message(""), &request).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(recorder_.refused, ElementsAre(RefuseReason::kInvalid, RefuseReason::kInvalid, RefuseReason::kInvalid,
                                             RefuseReason::kInvalid, RefuseReason::kInvalid));
}

TEST_F(FrontDoorTest, AStreamsMessageThatCannotBeReadIsRefusedOnce) {
  FrontDoor door = NewDoor();
  std::optional<MessageView> view;
  StreamRequestReader reader;
  const auto read = [&](grpc::ByteBuffer* message) {
    return door.Decoded(FrontDoor::Decode(message, state_.limits, &view, &reader));
  };
  grpc::ByteBuffer invalid;
  EXPECT_EQ(read(&invalid), absl::InvalidArgumentError("the stream carries an invalid message"));
  grpc::Slice half("\x0a\x7f", 2);  // 127 bytes that are not there
  grpc::ByteBuffer truncated(&half, 1);
  EXPECT_EQ(read(&truncated).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(recorder_.refused, ElementsAre(RefuseReason::kInvalid, RefuseReason::kInvalid));
  EXPECT_EQ(state_.requests_in_flight.Sum(), 0);
}

TEST_F(FrontDoorTest, AStreamsBadRequestIsRefusedAloneAndFinishesAtOnce) {
  FrontDoor door = NewDoor();
  v1::SoftmaxStreamRequest message;
  *message.add_requests() = TwoNumbers(1);
  message.add_requests()->set_id(2);
  grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer buffer(&slice, 1);
  std::optional<MessageView> view;
  StreamRequestReader reader;
  ASSERT_EQ(FrontDoor::Decode(&buffer, state_.limits, &view, &reader), absl::OkStatus());
  ASSERT_EQ(reader.left(), 2u);
  DecodedRequest requests[2];
  for (DecodedRequest& request : requests) ASSERT_EQ(reader.Next(door.LimitsAtOnce(), &request), absl::OkStatus());
  const TimePoint now = SteadyClock::now();
  EXPECT_TRUE(door.StreamedRequestArrived(Method::kSoftmaxStream, requests[0].status, now));
  EXPECT_THAT(recorder_.refused, IsEmpty());
  EXPECT_FALSE(door.StreamedRequestArrived(Method::kSoftmaxStream, requests[1].status, now));
  EXPECT_THAT(recorder_.refused, ElementsAre(RefuseReason::kInvalid));
  ASSERT_EQ(recorder_.finished.size(), 1u);
  EXPECT_EQ(recorder_.finished[0].method, Method::kSoftmaxStream);
  EXPECT_EQ(recorder_.finished[0].code, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(state_.requests_in_flight.Sum(), 1);  // the good one
}

TEST_F(FrontDoorTest, ARequestIsInFlightUntilItFinishes) {
  FrontDoor door = NewDoor();
  door.RequestArrived();
  door.RequestArrived();
  EXPECT_EQ(state_.requests_in_flight.Sum(), 2);
  const TimePoint now = SteadyClock::now();
  door.RequestFinished(SampleOf(Method::kSoftmax, absl::OkStatus(), now, now, nullptr), 1, nullptr, FakeCall());
  EXPECT_EQ(state_.requests_in_flight.Sum(), 1);
  EXPECT_EQ(recorder_.finished.size(), 1u);
}

TEST_F(FrontDoorTest, OnlyASlowRequestIsAskedWhoseItIs) {
  state_.slow_requests.SetThreshold(milliseconds(2));
  FrontDoor door = NewDoor();
  const FakeCall call;
  const TimePoint now = SteadyClock::now();
  const auto finish = [&](milliseconds total) {
    door.RequestArrived();
    door.RequestFinished(SampleOf(Method::kSoftmax, absl::OkStatus(), now - total, now, nullptr), 1, nullptr, call);
  };
  finish(milliseconds(1));
  EXPECT_EQ(call.metadata_reads + call.peer_reads, 0);
  finish(milliseconds(3));  // logs "slow request"
  EXPECT_EQ(call.metadata_reads, 1);
  EXPECT_EQ(call.peer_reads, 1);
}

// The exemplar has the trace that the spans are of, also where it began here.
TEST_F(FrontDoorTest, ATracedRequestIsExportedAndRecorded) {
  softmax::testing::Collector collector;
  SpanExporter exporter({.target = collector.target(), .ratio = 1});
  state_.spans = &exporter;
  FrontDoor door = NewDoor();
  RequestSample sample;
  sample.arrived = SteadyClock::now();
  door.RequestArrived();
  door.RequestFinished(sample, 1, nullptr, FakeCall());
  door.RequestArrived();
  door.RequestFinished(sample, 2, nullptr, FakeCall("", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
  state_.spans = nullptr;
  const auto spans = collector.AwaitSpans("softmax.v1.SoftmaxService/Softmax", 1);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_THAT(recorder_.traces, ElementsAre(absl::BytesToHexString(spans[0].trace_id())));
}

TEST_F(FrontDoorTest, ASlowRequestsTraceIsRecorded) {
  state_.slow_requests.SetThreshold(milliseconds(2));
  FrontDoor door = NewDoor();
  const TimePoint now = SteadyClock::now();
  const std::string trace_id = "0af7651916cd43dd8448eb211c80319c";
  for (const std::string& trace : {"00-" + trace_id + "-b7ad6b7169203331-01", std::string(55, 'a'), std::string()}) {
    door.RequestArrived();
    door.RequestFinished(SampleOf(Method::kSoftmax, absl::OkStatus(), now - milliseconds(3), now, nullptr), 1, nullptr,
                         FakeCall("", trace));
  }
  EXPECT_THAT(recorder_.traces, ElementsAre(trace_id));
}

TEST(SampleOf, HasGrpcsCodeAndTheTimesOfWhatRan) {
  const TimePoint now = SteadyClock::now();
  Answer answer;
  answer.queue = milliseconds(1);
  answer.batch = milliseconds(2);
  RequestSample sample = SampleOf(Method::kSoftmax, absl::ResourceExhaustedError(""), now, now, &answer);
  EXPECT_EQ(sample.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(sample.ran);
  EXPECT_EQ(sample.queue.count(), 0);
  answer.ran = true;
  sample = SampleOf(Method::kSoftmaxStream, absl::OkStatus(), now - milliseconds(5), now, &answer);
  EXPECT_EQ(sample.method, Method::kSoftmaxStream);
  EXPECT_EQ(sample.code, grpc::StatusCode::OK);
  EXPECT_EQ(sample.total, milliseconds(5));
  EXPECT_TRUE(sample.ran);
  EXPECT_EQ(sample.queue, milliseconds(1));
  EXPECT_EQ(sample.batch, milliseconds(2));
  EXPECT_EQ(SampleOf(Method::kGetServerInfo, DrainingError(), now, now, nullptr).code, grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace softmax::server
