// Tensors through the Open Inference Protocol, as its public clients send them (docs/oip.md), and what comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/loadgen/scrape/http_get.h"
#include "kernels/reference.h"
#include "server/rpc/security/token_set.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/oip_fixture.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

class Oip : public OipTest {};

TEST_F(Oip, RawTensorsOfEveryTypeShapeAndAxisUnderAnyName) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Question question = RandomQuestion(seed, 5000);
    if (!question.lengths.empty()) continue;  // which this protocol has no place for
    ModelInferRequest request = RequestOf(question, "id " + std::to_string(seed));
    request.set_model_name(std::string(kernels::TraitsOf(question.operation).name) + kModelEndings[seed % 4]);
    if (seed % 3 == 0) request.set_model_version("1");
    if (seed % 5 == 0) request.add_outputs()->set_name("Y");
    (*request.mutable_parameters())["priority"].set_uint64_param(1);
    (*request.mutable_parameters())["sequence_id"].set_int64_param(0);
    (*request.mutable_parameters())["sequence_start"].set_bool_param(false);
    (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(false);
    ModelInferResponse response;
    const grpc::Status status = Infer(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.id(), request.id());
    EXPECT_EQ(response.model_name(), request.model_name());
    EXPECT_EQ(response.model_version(), "1");
    EXPECT_EQ(response.outputs(0).name(), "Y");
    EXPECT_TRUE(response.parameters().empty());
    ExpectRight(question, response);
  }
}

TEST_F(Oip, LargeTensorsLeaveUncopied) {
  const Question question = MakeQuestion({64, 16384}, 5);  // 4 MiB
  ModelInferResponse response;
  ASSERT_TRUE(Infer(RequestOf(question), &response).ok());
  ExpectRight(question, response);
}

// As Triton: its clients look for raw contents, whatever they sent.
TEST_F(Oip, TypedRequestsHaveRawAnswers) {
  for (const kernels::DataType type : {kernels::DataType::kFloat32, kernels::DataType::kFloat64}) {
    const Question question = MakeQuestion({7, 33}, 3, type);
    ModelInferRequest request = RequestOf(question);
    request.clear_raw_input_contents();
    inference::InferTensorContents* const contents = request.mutable_inputs(0)->mutable_contents();
    for (std::int64_t i = 0; i < 7 * 33; ++i) {
      const double value = kernels::LoadElement(type, question.data.data(), i);
      if (type == kernels::DataType::kFloat32) contents->add_fp32_contents(static_cast<float>(value));
      if (type == kernels::DataType::kFloat64) contents->add_fp64_contents(value);
    }
    ModelInferResponse response;
    const grpc::Status status = Infer(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.outputs_size(), 1);
    ExpectRight(question, response);
  }
}

TEST_F(Oip, SeveralInputsAreAnsweredEach) {
  std::vector<Question> questions = {MakeQuestion({3, 100}, 1), MakeQuestion({50}, 2, kernels::DataType::kFloat16),
                                     MakeQuestion({2, 4096}, 3, kernels::DataType::kFloat64), MakeQuestion({0, 5}, 4),
                                     MakeQuestion({8, 65536}, 5)};
  ModelInferRequest request = RequestOf(questions[0], "several");
  for (std::size_t i = 1; i < questions.size(); ++i) {
    questions[i].output_type = questions[i].input_type;
    ModelInferRequest next = RequestOf(questions[i]);
    next.mutable_inputs(0)->set_name("X" + std::to_string(i));
    *request.add_inputs() = next.inputs(0);
    request.add_raw_input_contents(next.raw_input_contents(0));
  }
  ModelInferResponse response;
  grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.outputs_size(), 5);
  for (int i = 0; i < 5; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(response.outputs(i).name(), i == 0 ? "Y" : "Y" + std::to_string(i));
    ExpectRight(questions[static_cast<std::size_t>(i)], response, i);
  }
  // Only what is asked for.
  request.add_outputs()->set_name("Y2");
  status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).name(), "Y2");
  ExpectRight(questions[2], response);
}

TEST_F(Oip, AStreamAnswersEachRequestInTurn) {
  const auto context = Context();
  const auto stream = stub_->ModelStreamInfer(context.get());
  std::vector<Question> questions;
  for (std::uint64_t seed = 0; questions.size() < 300; ++seed) {
    Question question = RandomQuestion(seed, 4000);
    if (question.lengths.empty()) questions.push_back(std::move(question));
  }
  std::jthread writer([&] {
    for (std::size_t i = 0; i < questions.size(); ++i) {
      ModelInferRequest request = RequestOf(questions[i], std::to_string(i));
      if (i % 3 > 0) (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(i % 3 == 1);
      stream->Write(request);
    }
    stream->WritesDone();
  });
  inference::ModelStreamInferResponse response;
  std::size_t answers = 0;
  for (; stream->Read(&response); ++answers) {
    ASSERT_EQ(response.infer_response().id(), std::to_string(answers));
    EXPECT_EQ(response.error_message(), "");
    ExpectRight(questions[answers], response.infer_response());
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
  }
  EXPECT_EQ(answers, questions.size());
  EXPECT_TRUE(stream->Finish().ok());
}

// A large request takes longer than what is sent behind it, and errors are known at once: they wait for their turn.
TEST_F(Oip, AnswersAndErrorsOfAStreamWaitForEarlierOnes) {
  const Question large = MakeQuestion({64, 65536}, 5);  // 16 MiB
  const Question small = MakeQuestion({64, 256}, 1);    // 64 KiB
  ModelInferRequest bad = RequestOf(small, "bad");
  bad.mutable_inputs(0)->set_datatype("INT8");
  const auto context = Context();
  const auto stream = stub_->ModelStreamInfer(context.get());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(stream->Write(RequestOf(large, "large")));
    ASSERT_TRUE(stream->Write(bad));
    ASSERT_TRUE(stream->Write(RequestOf(small, "small")));
  }
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  for (int round = 0; round < 3; ++round) {
    for (const char* const id : {"large", "bad", "small"}) {
      ASSERT_TRUE(stream->Read(&response));
      EXPECT_EQ(response.infer_response().id(), id);
      EXPECT_EQ(response.error_message().empty(), std::string(id) != "bad");
      if (std::string(id) == "large") ExpectRight(large, response.infer_response());
      if (std::string(id) == "small") ExpectRight(small, response.infer_response());
    }
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  // What waits holds no memory that the answer before it may need.
  const auto location = client::ParseHttpLocation("http://" + service_.server().metrics_address() + "/metrics", "/");
  ASSERT_TRUE(location.ok());
  const auto metrics = client::HttpGet(*location, {});
  ASSERT_TRUE(metrics.ok());
  const std::string name = "softmax_host_copied_bytes_total{direction=\"out\"} ";
  const std::size_t at = metrics->find(name);
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stod(metrics->substr(at + name.size())), 64 << 10);
}

// As Triton's header asks: the first error, in the order of requests, is the stream's.
TEST_F(Oip, AnErrorEndsAStreamThatAsksForIt) {
  const Question large = MakeQuestion({64, 65536}, 5);
  const Question small = MakeQuestion({2, 3}, 1);
  for (const char* const header : {"true", "false"}) {
    const bool ends = std::string(header) == "true";
    const auto context = Context();
    context->AddMetadata("triton_grpc_error", header);
    const auto stream = stub_->ModelStreamInfer(context.get());
    ASSERT_TRUE(stream->Write(RequestOf(large, "1")));
    ModelInferRequest late = RequestOf(large, "2");
    (*late.mutable_parameters())["timeout"].set_int64_param(1);
    ASSERT_TRUE(stream->Write(late));
    ModelInferRequest bad = RequestOf(small, "3");
    bad.mutable_inputs(0)->set_datatype("INT8");
    stream->Write(bad);
    stream->Write(RequestOf(small, "4"));
    stream->WritesDone();
    inference::ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), "1");
    EXPECT_EQ(response.error_message(), "");
    int more = 0;
    while (stream->Read(&response)) ++more;
    EXPECT_EQ(more, ends ? 0 : 3);
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), ends ? grpc::DEADLINE_EXCEEDED : grpc::OK) << status.error_message();
    EXPECT_EQ(status.error_message().empty(), !ends);
  }
}

// Parameters that public SDKs send, and which change nothing.
TEST_F(Oip, WhatOtherSdksSayBesideIsTaken) {
  const Question question = MakeQuestion({2, 3}, 1);
  ModelInferRequest request = RequestOf(question);
  (*request.mutable_parameters())["binary_data_output"].set_bool_param(true);
  (*request.mutable_parameters())["content_type"].set_string_param("np");
  (*request.mutable_inputs(0)->mutable_parameters())["binary_data_size"].set_int64_param(24);
  (*request.mutable_inputs(0)->mutable_parameters())["content_type"].set_string_param("np");
  request.add_outputs()->set_name("Y");
  (*request.mutable_outputs(0)->mutable_parameters())["binary_data"].set_bool_param(true);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectRight(question, response);
}

TEST_F(Oip, SeveralLargeOutputsOfAStreamAreOneMessage) {
  const auto context = Context();
  const auto stream = stub_->ModelStreamInfer(context.get());
  const Question question = MakeQuestion({16, 16384}, 1);  // 1 MiB
  ModelInferRequest request = RequestOf(question, "a");
  for (const char* name : {"X1", "X2"}) {
    *request.add_inputs() = request.inputs(0);
    request.mutable_inputs()->rbegin()->set_name(name);
    request.add_raw_input_contents(request.raw_input_contents(0));
  }
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  int answers = 0;
  inference::ModelStreamInferResponse response;
  for (; stream->Read(&response); ++answers) {
    ASSERT_EQ(response.infer_response().outputs_size(), 3);
    for (int i = 0; i < 3; ++i) ExpectRight(question, response.infer_response(), i);
  }
  EXPECT_EQ(answers, 5);
  EXPECT_TRUE(stream->Finish().ok());
}

// As the public asynchronous clients work: many calls at once, each found again by its id.
TEST_F(Oip, ManyAsynchronousCallsEachHaveTheirId) {
  struct Call {
    grpc::ClientContext context;
    ModelInferResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<ModelInferResponse>> reader;
  };
  std::vector<Question> questions;
  std::vector<std::unique_ptr<Call>> calls;
  grpc::CompletionQueue queue;
  for (std::uint64_t i = 0; i < 200; ++i) {
    questions.push_back(MakeQuestion({1, static_cast<std::int64_t>(1 + i)}, i));
    calls.push_back(std::make_unique<Call>());
    calls.back()->reader =
        stub_->AsyncModelInfer(&calls.back()->context, RequestOf(questions.back(), std::to_string(i)), &queue);
    calls.back()->reader->Finish(&calls.back()->response, &calls.back()->status, reinterpret_cast<void*>(i));
  }
  for (int i = 0; i < 200; ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    const auto index = reinterpret_cast<std::uint64_t>(tag);
    ASSERT_TRUE(calls[index]->status.ok()) << calls[index]->status.error_message();
    EXPECT_EQ(calls[index]->response.id(), std::to_string(index));
    ExpectRight(questions[index], calls[index]->response);
  }
}

TEST_F(Oip, ATimeoutIsKept) {
  ModelInferRequest request = RequestOf(MakeQuestion({4, 8}, 1));
  (*request.mutable_parameters())["timeout"].set_int64_param(1);
  ModelInferResponse response;
  const grpc::Status status = Infer(request, &response);
  EXPECT_EQ(status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_FALSE(status.error_message().empty());
  (*request.mutable_parameters())["timeout"].set_int64_param(0);
  EXPECT_TRUE(Infer(request, &response).ok());  // none
  (*request.mutable_parameters())["timeout"].set_int64_param(-1);
  EXPECT_EQ(Infer(request, &response).error_code(), grpc::INVALID_ARGUMENT);
  (*request.mutable_parameters())["timeout"].set_int64_param(INT64_MAX);
  EXPECT_TRUE(Infer(request, &response).ok());
}

TEST_F(Oip, ADrainSaysUnavailable) {
  const auto context = Context();
  const auto stream = stub_->ModelStreamInfer(context.get());
  ASSERT_TRUE(stream->Write(RequestOf(MakeQuestion({2, 3}, 1), "before")));
  inference::ModelStreamInferResponse streamed;
  ASSERT_TRUE(stream->Read(&streamed));
  service_.Drain();
  EXPECT_FALSE(stream->Read(&streamed));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("draining"));
}

class OipBatches : public OipTest {
 protected:
  OipBatches()
      : OipTest([](server::Config& config) {
          config.threads = 1;
          config.max_queue_delay = std::chrono::milliseconds(300);
        }) {}
};

// A request of each contract, sent at once, in one batch.
TEST_F(OipBatches, AreSharedWithTheNativeContract) {
  const Question question = MakeQuestion({5, 64}, 1);
  const auto native = v1::SoftmaxService::NewStub(channel_);
  std::uint64_t most_rows = 0;
  for (int round = 0; round < 5 && most_rows < 10; ++round) {
    std::jthread other([&] {
      ModelInferResponse response;
      EXPECT_TRUE(Infer(RequestOf(question), &response).ok());
      ExpectRight(question, response);
    });
    v1::SoftmaxResponse response;
    ASSERT_TRUE(native->Softmax(Context().get(), NativeRequestOf(question), &response).ok());
    most_rows = std::max(most_rows, response.timing().batch_rows());
  }
  EXPECT_EQ(most_rows, 10u);
}

}  // namespace
}  // namespace softmax::testing
