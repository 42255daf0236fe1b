// Messages that take long to read, for their many small fields: they are right, and hold nobody up.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/good_client.h"
#include "tests/end_to_end/requests.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {
namespace {

constexpr std::int64_t kRows = 300'000;  // as many bytes of lengths: beyond what a queue thread reads at one go

v1::SoftmaxRequest WithLengths(std::uint64_t id, std::int64_t rows) {
  v1::SoftmaxRequest request = RequestOfZeros({rows, 2}, id);
  for (std::int64_t row = 0; row < rows; ++row) request.add_lengths(static_cast<std::uint32_t>(row % 2 + 1));
  return request;
}

void ExpectRight(const v1::SoftmaxResponse& answer, std::uint64_t id, std::int64_t rows) {
  EXPECT_EQ(answer.id(), id);
  const std::string& data = answer.output().data();
  ASSERT_EQ(data.size(), static_cast<std::size_t>(rows) * 8);
  const auto* const values = reinterpret_cast<const float*>(data.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    const float expected = row % 2 == 0 ? 1.0F : 0.5F;
    ASSERT_EQ(values[2 * row], expected) << row;
    ASSERT_EQ(values[2 * row + 1], 1 - expected) << row;
  }
}

TEST(LongMessages, AreAnsweredRightByBothKindsOfCall) {
  Service service;
  const auto stub = v1::SoftmaxService::NewStub(OwnChannel(service.target()));
  {
    grpc::ClientContext context;
    v1::SoftmaxResponse answer;
    const grpc::Status status = stub->Softmax(&context, WithLengths(3, kRows), &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ExpectRight(answer, 3, kRows);
  }
  // Among others of its message.
  grpc::ClientContext context;
  const auto stream = stub->SoftmaxStream(&context);
  v1::SoftmaxStreamRequest message;
  const std::int64_t rows[] = {2, kRows, 4, kRows, 6};
  for (std::uint64_t id = 0; id < std::size(rows); ++id) *message.add_requests() = WithLengths(id, rows[id]);
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(stream->WritesDone());
  std::size_t answered = 0;
  for (v1::SoftmaxStreamResponse response; stream->Read(&response);) {
    for (const v1::SoftmaxResponse& answer : response.responses()) {
      ExpectRight(answer, answer.id(), rows[answer.id()]);
      ++answered;
    }
  }
  EXPECT_EQ(answered, std::size(rows));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(LongMessages, ThatAreWrongAreRefusedByBothKindsOfCall) {
  Service service;
  const auto stub = v1::SoftmaxService::NewStub(OwnChannel(service.target()));
  v1::SoftmaxRequest wrong = WithLengths(3, kRows);
  wrong.set_lengths(kRows - 1, 3);
  grpc::ClientContext unary;
  v1::SoftmaxResponse answer;
  EXPECT_EQ(stub->Softmax(&unary, wrong, &answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  const auto stream = stub->SoftmaxStream(&context);
  v1::SoftmaxStreamRequest message;
  *message.add_requests() = wrong;
  ASSERT_TRUE(stream->Write(message));
  v1::SoftmaxStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.responses(0).status().code(), grpc::StatusCode::INVALID_ARGUMENT);
  context.TryCancel();
}

}  // namespace
}  // namespace softmax::testing
