#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/every_way.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"

// Answers that do not fit their requests, by a server that is broken or is another: refused in words.
namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AnswersTest : public ::testing::Test {
 protected:
  // Its request's status and its own.
  std::vector<absl::Status> CallOnStream() {
    absl::Status answered;
    auto stream =
        client_->OpenStream({}, [&](std::uint64_t, absl::StatusOr<Tensor> answer) { answered = answer.status(); });
    EXPECT_EQ((*stream)->Send(1, input_.view()), absl::OkStatus());
    const absl::Status ended = (*stream)->Finish();
    return {answered, ended};
  }

  void ExpectInternal(const absl::Status& status, const std::string& words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(server_.address() + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }

  FakeServer server_;
  const Sample input_ = MakeSample(DataType::kFloat32, {2, 8}, 1);
  const std::unique_ptr<Client> client_ = *Client::Create({.target = server_.address()});
};

TEST_F(AnswersTest, AnAnswerOfAnotherShapeIsRefused) {
  server_.behavior().flatten_answers = true;
  for (const absl::Status& status : CallInEveryWay(*client_, input_)) {
    ExpectInternal(status, "the server's answer is float32 [16], and float32 [2, 8] was asked for");
  }
  const std::vector<absl::Status> on_stream = CallOnStream();
  ExpectInternal(on_stream[0], "float32 [16]");
  EXPECT_EQ(on_stream[1], absl::OkStatus());
  EXPECT_EQ(client_->Stats().calls_by_code[0], 0u);
}

TEST_F(AnswersTest, AnAnswerThatCannotBeDecodedIsNamedAsThat) {
  server_.behavior().undecodable_answers = true;
  for (const absl::Status& status : CallInEveryWay(*client_, input_)) ExpectInternal(status, "cannot be decoded");
  for (const absl::Status& status : CallOnStream()) ExpectInternal(status, "cannot be decoded");
}

TEST_F(AnswersTest, AStreamsAnswerToNothingIsNamedAsThat) {
  server_.behavior().unknown_ids = true;
  for (const absl::Status& status : CallOnStream()) {
    ExpectInternal(status, "the server answered request 1001, which is not unanswered");
  }
}

}  // namespace
}  // namespace softmax::client
