// Unary calls and streams of both contracts: what they take of their connection and their server they give back,
// however they end (OneConnection looks). One step at a time.
#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "tests/server/rpc/calls/one_connection.h"

namespace softmax::server {
namespace {

using ::testing::UnorderedElementsAre;

class TensorCalls : public testing::OneConnection {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::SoftmaxStreamRequest, v1::SoftmaxStreamResponse>;

  // A message of requests, of which those without a shape are refused.
  static v1::SoftmaxStreamRequest MessageOf(std::initializer_list<v1::SoftmaxRequest> requests) {
    v1::SoftmaxStreamRequest message;
    for (const v1::SoftmaxRequest& request : requests) {
      *message.add_requests() = request;
      message.mutable_requests()->rbegin()->set_id(static_cast<std::uint64_t>(message.requests_size()));
    }
    return message;
  }
  // Its status codes, in the order of the ids.
  static std::vector<int> CodesOf(Stream& stream, int answers) {
    std::vector<int> codes(static_cast<std::size_t>(answers), -1);
    v1::SoftmaxStreamResponse message;
    while (answers > 0 && stream.Read(&message)) {
      for (const v1::SoftmaxResponse& answer : message.responses()) {
        codes[answer.id() - 1] = answer.status().code();
        --answers;
      }
    }
    return codes;
  }

  std::unique_ptr<v1::SoftmaxService::Stub> stub_ = v1::SoftmaxService::NewStub(channel_);
  grpc::ClientContext context_;
};

TEST_F(TensorCalls, AUnaryCallIsAnsweredWithItsOwnNumbers) {
  for (const std::int64_t columns : {2, 400, 100'000}) {  // the answer is copied, referred to, or from the backlog
    grpc::ClientContext context;
    v1::SoftmaxResponse answer;
    const grpc::Status status = stub_->Softmax(&context, RowOf(columns, 3), &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(answer.output().data().size(), static_cast<std::size_t>(columns) * 4);
    EXPECT_EQ(FirstOf(answer), 6);
  }
}

TEST_F(TensorCalls, AUnaryCallThatIsRefusedLeavesNothing) {
  v1::SoftmaxResponse answer;
  EXPECT_EQ(stub_->Softmax(&context_, v1::SoftmaxRequest(), &answer).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(recorder_.rejected, ::testing::ElementsAre(RefuseReason::kInvalid));
}

TEST_F(TensorCalls, AStreamsErrorsAreOwedUntilTheyAreWritten) {
  const auto stream = stub_->SoftmaxStream(&context_);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(stream->Write(MessageOf({RowOf(4, 1), {}, RowOf(5, 1), {}, {}})));
    EXPECT_EQ(CodesOf(*stream, 5), (std::vector<int>{0, 3, 0, 3, 3}));
    ASSERT_TRUE(::softmax::testing::Eventually([&] {
      std::uint64_t owed = 1;
      OnThread([&] { owed = connection_->share().owed_bytes() + connection_->share().in_flight_bytes; });
      return owed == 0;
    })) << "after round "
        << round;
    EXPECT_EQ(connections_.unread_budget().used(), 0u);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Also one that fails while its answer would be so large that it counts when it is written.
TEST_F(TensorCalls, EveryRequestOfAStreamFinishesOnce) {
  v1::SoftmaxRequest late = RowOf(20'000, 1);
  late.set_timeout_us(1);
  const auto stream = stub_->SoftmaxStream(&context_);
  ASSERT_TRUE(stream->Write(MessageOf({RowOf(4, 1), {}, late, RowOf(20'000, 1)})));
  EXPECT_EQ(CodesOf(*stream, 4), (std::vector<int>{0, 3, 4, 0}));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  OnThread([&] { EXPECT_EQ(recorder_.finished, (std::map<int, int>{{0, 2}, {3, 1}, {4, 1}})); });
}

// Refused ones too. What has not been earned, the guard takes for a flood.
TEST_F(TensorCalls, RequestsOfStreamsEarnFrames) {
  constexpr int kRequests = 1000, kMessages = 2;  // more than the spare frames would be forgotten
  v1::SoftmaxStreamRequest message;
  for (int i = 0; i < kRequests; ++i) *message.add_requests() = i % 2 == 0 ? RowOf(1, 1) : v1::SoftmaxRequest();
  const auto stream = stub_->SoftmaxStream(&context_);
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(stream->Write(message));
    v1::SoftmaxStreamResponse answers;
    for (int left = kRequests; left > 0; left -= answers.responses_size()) ASSERT_TRUE(stream->Read(&answers));
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  constexpr std::uint64_t kEarned = kRequests * kMessages * FrameMeter::kFramesPerCall;
  std::uint64_t passed = 0;
  for (std::string grant("\0\0\4\x8\0\0\0\0\0\0\0\0\1", 13); ReadGuard::Passes(connection_->account(), grant);)
    ++passed;
  EXPECT_GE(passed, FrameMeter::kSpareFrames + kEarned * 9 / 10);
}

TEST_F(TensorCalls, CallsOfAConnectionThatHasEndedAreNotRun) {
  connections_.Remove(name_, connection_->fd(), /*server=*/0);
  v1::SoftmaxResponse answer;
  EXPECT_EQ(stub_->Softmax(&context_, RowOf(4, 1), &answer).error_code(), grpc::CANCELLED);
  EXPECT_TRUE(recorder_.batches.empty());
}

TEST_F(TensorCalls, LargeAndSmallRequestsOfAMessageAreAnswered) {
  const auto stream = stub_->SoftmaxStream(&context_);
  ASSERT_TRUE(stream->Write(MessageOf({RowOf(2, 1), RowOf(100'000, 2), RowOf(400, 3)})));
  std::vector<float> firsts;
  v1::SoftmaxStreamResponse message;
  while (firsts.size() < 3 && stream->Read(&message)) {
    for (const v1::SoftmaxResponse& answer : message.responses()) firsts.push_back(FirstOf(answer));
  }
  EXPECT_THAT(firsts, UnorderedElementsAre(2, 4, 6));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Its answers have nowhere to go: they wait, and are dropped when a write fails.
TEST_F(TensorCalls, AStreamThatIsCancelledUnreadGivesAllBack) {
  const auto stream = stub_->SoftmaxStream(&context_);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(stream->Write(MessageOf({RowOf(20'000, 1), {}, RowOf(20'000, 1)})));
  EXPECT_TRUE(::softmax::testing::Eventually([&] { return LeftBehind() > 100'000; }));
  context_.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
}

// The requests before it are answered.
TEST_F(TensorCalls, AMessageOfTooManyRequestsEndsAStream) {
  state_.limits.max_requests_per_stream_message = 2;
  const auto stream = stub_->SoftmaxStream(&context_);
  ASSERT_TRUE(stream->Write(MessageOf({RowOf(4, 1)})));
  stream->Write(MessageOf({RowOf(4, 1), RowOf(4, 1), RowOf(4, 1)}));
  EXPECT_EQ(CodesOf(*stream, 1), std::vector<int>{0});
  EXPECT_EQ(stream->Finish().error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(TensorCalls, ADrainRefusesStreamsAndCalls) {
  state_.draining = true;
  v1::SoftmaxResponse answer;
  EXPECT_EQ(stub_->Softmax(&context_, RowOf(4, 1), &answer).error_code(), grpc::UNAVAILABLE);
  grpc::ClientContext context;
  EXPECT_EQ(stub_->SoftmaxStream(&context)->Finish().error_code(), grpc::UNAVAILABLE);
}

inference::ModelInferRequest InferRequestOf(const std::string& model) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  auto* const input = request.add_inputs();
  input->set_name("X");
  input->set_datatype("FP32");
  input->add_shape(4);
  request.add_raw_input_contents(std::string(16, '\0'));
  return request;
}

// The stream ends when it has been read, elsewhere, and refused.
TEST_F(TensorCalls, AnInferenceThatTakesLongToReadIsWaitedFor) {
  inference::ModelInferRequest request = InferRequestOf("softmax");
  request.clear_raw_input_contents();
  for (std::uint64_t i = 0; i <= FrontDoor::kStepsAtOnce; ++i) {
    request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  }
  const auto stream = inference::GRPCInferenceService::NewStub(channel_)->ModelStreamInfer(&context_);
  stream->WriteLast(request, {});
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_NE(answer.error_message(), "");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TensorCalls, InferencesGiveAllBackToo) {
  const auto stub = inference::GRPCInferenceService::NewStub(channel_);
  inference::ModelInferResponse answer;
  const grpc::Status status = stub->ModelInfer(&context_, InferRequestOf("softmax"), &answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::ClientContext of_refused;
  EXPECT_EQ(stub->ModelInfer(&of_refused, InferRequestOf("another"), &answer).error_code(), grpc::NOT_FOUND);
  grpc::ClientContext of_stream;
  const auto stream = stub->ModelStreamInfer(&of_stream);
  for (const char* model : {"softmax", "another", "softmax"}) {
    ASSERT_TRUE(stream->Write(InferRequestOf(model)));
    inference::ModelStreamInferResponse message;
    ASSERT_TRUE(stream->Read(&message));
    EXPECT_EQ(message.error_message().empty(), std::string(model) == "softmax") << message.error_message();
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace softmax::server
