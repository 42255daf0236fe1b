// Answers as small as the question (docs/answers.md), of both contracts: what comes back of each row, and that it has
// the bits of the whole answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/wire/oip_decode.h"
#include "tests/end_to_end/oip_fixture.h"
#include "tests/support/summary_cases.h"

namespace softmax::testing {
namespace {

using client::Summary;

// A question and what it asks of each row; `indices` belongs to it.
struct SmallQuestion {
  Question question;
  std::vector<std::int32_t> indices;
  std::int64_t at = 0;
  std::uint32_t top_k = 0;
  bool log_sum_exp = false;
  bool entropy = false;

  client::SoftmaxOptions options() const {
    client::SoftmaxOptions options = question.options();
    options.summary.top_k = top_k;
    options.summary.indices = indices;
    options.summary.log_sum_exp = log_sum_exp;
    options.summary.entropy = entropy;
    return options;
  }
};

SmallQuestion AnySmallQuestion(std::uint64_t seed, std::int64_t most_elements) {
  SmallQuestion small;
  small.question = RandomQuestion(seed, most_elements);
  Random random(seed + 5);
  const kernels::Segment rows = SegmentOf(small.question);
  small.top_k = random.Below(3) == 0 ? 0 : static_cast<std::uint32_t>(random.Below(random.Below(20) == 0 ? 1025 : 25));
  const std::int64_t most = 50000 / std::max<std::int64_t>(1, rows.outer * rows.inner);  // keeps answers small
  small.top_k = static_cast<std::uint32_t>(std::min<std::int64_t>(small.top_k, most));
  small.at = rows.cols == 0 || random.Below(2) == 0 ? 0 : static_cast<std::int64_t>(random.Below(5));
  for (std::int64_t i = 0; i < rows.outer * rows.inner * small.at; ++i) {
    small.indices.push_back(static_cast<std::int32_t>(random.Below(rows.cols + 1)) - 1);
  }
  small.entropy = random.Below(3) == 0;
  small.log_sum_exp = random.Below(2) == 0 || (small.top_k == 0 && small.indices.empty() && !small.entropy);
  return small;
}

// What is wrong with a summary; empty: nothing. `whole` is the whole answer of the same question.
std::string FaultOf(const SmallQuestion& small, const Summary& summary, std::span<const std::byte> whole) {
  const Question& question = small.question;
  const kernels::Segment rows = SegmentOf(question);
  const std::int64_t count = rows.outer * rows.inner;
  if (count * rows.cols == 0) {
    for (int part = 0; part < Summary::kParts; ++part) {
      if (!summary.bytes(static_cast<Summary::Part>(part)).empty()) return "an empty tensor has a summary";
    }
    return "";
  }
  const auto value = static_cast<std::int64_t>(kernels::SizeOf(question.output_type));
  const std::int64_t number = question.input_type == kernels::DataType::kFloat64 ? 8 : 4;
  const std::int64_t sizes[Summary::kParts] = {count * small.top_k * value,
                                               count * small.top_k * 4,
                                               count * small.at * value,
                                               small.log_sum_exp ? count * number : 0,
                                               small.log_sum_exp ? count * number : 0,
                                               small.entropy ? count * number : 0};
  std::byte* places[Summary::kParts];
  for (int part = 0; part < Summary::kParts; ++part) {
    const std::span<const std::byte> bytes = summary.bytes(static_cast<Summary::Part>(part));
    if (static_cast<std::int64_t>(bytes.size()) != sizes[part])
      return "part " + std::to_string(part) + " has a wrong size";
    places[part] = bytes.empty() ? nullptr : const_cast<std::byte*>(bytes.data());
  }
  kernels::SummarySegment segment;
  segment.rows = rows;
  segment.top_k = static_cast<std::int32_t>(small.top_k);
  segment.at = small.at;
  segment.indices = small.at > 0 ? small.indices.data() : nullptr;
  segment.top_values = places[Summary::kTopValues];
  segment.top_indices = reinterpret_cast<std::int32_t*>(places[Summary::kTopIndices]);
  segment.values_at = places[Summary::kValuesAt];
  segment.log_sum_exp = places[Summary::kLogSumExp];
  segment.maximum = places[Summary::kMaximum];
  segment.entropy = places[Summary::kEntropy];
  segment.rows.output = const_cast<std::byte*>(whole.data());  // only read
  return testing::FaultOf(question.input_type, question.output_type, segment);
}

// 10,000 random questions, small and whole answers in each other's batches.
TEST(SmallAnswers, HaveExactIndicesAndTheWholeAnswersBitsInAnyCompany) {
  Service service;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&service, &wrong, thread] {
      const auto client = service.NewClient();
      for (std::uint64_t seed = thread; seed < 10000 && wrong < 5; seed += 8) {
        const SmallQuestion small = AnySmallQuestion(seed, 800);
        const auto whole = client->Softmax(small.question.view(), small.question.options());
        const auto answer = client->Softmax(small.question.view(), small.options());
        if (!whole.ok() || !answer.ok()) {
          ADD_FAILURE() << seed << ": " << whole.status() << ", " << answer.status();
          ++wrong;
          continue;
        }
        EXPECT_TRUE(answer->data().empty());
        const std::string fault = FaultOf(small, answer->summary(), whole->data());
        if (!fault.empty()) {
          ADD_FAILURE() << seed << ": " << fault;
          ++wrong;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(SmallAnswers, ComeWithTheWholeTensorWhereItIsAskedFor) {
  Service service;
  const auto client = service.NewClient();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const SmallQuestion small = AnySmallQuestion(seed, 60000);
    client::SoftmaxOptions options = small.options();
    options.summary.full = true;
    const auto answer = client->Softmax(small.question.view(), options);
    ASSERT_TRUE(answer.ok()) << seed << ": " << answer.status();
    const kernels::Judgement judgement = JudgeAnswer(small.question, answer->data());
    EXPECT_TRUE(judgement.ok) << seed << ": " << judgement.message;
    EXPECT_EQ(FaultOf(small, answer->summary(), answer->data()), "") << seed;
  }
}

TEST(SmallAnswers, ComeOnStreams) {
  Service service;
  const auto client = service.NewClient();
  std::vector<SmallQuestion> questions;
  std::vector<std::vector<std::byte>> wholes;
  for (std::uint64_t id = 0; id < 300; ++id) {
    questions.push_back(AnySmallQuestion(id, id % 10 == 0 ? 100000 : 2000));
    const auto whole = client->Softmax(questions[id].question.view(), questions[id].question.options());
    ASSERT_TRUE(whole.ok()) << whole.status();
    wholes.emplace_back(whole->data().begin(), whole->data().end());
  }
  int right = 0;
  client::StreamOptions options;
  options.max_in_flight = 300;
  auto stream = client->OpenStream(options, [&](std::uint64_t id, absl::StatusOr<client::Tensor> answer) {
    ASSERT_TRUE(answer.ok()) << id << ": " << answer.status();
    if (id % 2 == 0) {
      EXPECT_EQ(FaultOf(questions[id], answer->summary(), wholes[id]), "") << id;
    } else {
      EXPECT_TRUE(JudgeAnswer(questions[id].question, answer->data()).ok) << id;
    }
    ++right;
  });
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (std::uint64_t id = 0; id < 300; ++id) {
    const SmallQuestion& small = questions[id];
    const absl::Status sent =
        (*stream)->Send(id, small.question.view(), id % 2 == 0 ? small.options() : small.question.options());
    EXPECT_TRUE(sent.ok()) << sent;
  }
  EXPECT_TRUE((*stream)->Finish().ok());
  EXPECT_EQ(right, 300);
}

class SmallOip : public OipTest {
 protected:
  ModelInferResponse Answer(const ModelInferRequest& request) {
    ModelInferResponse response;
    const grpc::Status status = Infer(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.raw_output_contents_size(), response.outputs_size());
    return response;
  }
};

std::vector<std::int64_t> ShapeOf(const ModelInferResponse& response, int output) {
  const auto& shape = response.outputs(output).shape();
  return {shape.begin(), shape.end()};
}

// The same question through both doors has the same bits.
TEST_F(SmallOip, FurtherOutputsHaveTheNativeSummarysBits) {
  const auto client = service_.NewClient();
  int asked = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SmallQuestion small = AnySmallQuestion(seed, 3000);
    if (!small.question.lengths.empty()) continue;  // which this protocol has no place for
    small.indices.clear();
    small.at = 0;
    if (!small.options().summary.any()) continue;
    ++asked;
    const auto native = client->Softmax(small.question.view(), small.options());
    ASSERT_TRUE(native.ok()) << native.status();
    ModelInferRequest request = RequestOf(small.question, "small");
    auto& parameters = *request.mutable_parameters();
    if (small.top_k > 0) parameters["top_k"].set_int64_param(small.top_k);
    if (small.log_sum_exp) parameters["log_sum_exp"].set_bool_param(true);
    if (small.entropy) parameters["entropy"].set_bool_param(true);
    const bool with_tensor = seed % 4 == 0;
    std::vector<std::pair<std::string, Summary::Part>> wanted;
    if (small.top_k > 0) wanted = {{"Y_top_values", Summary::kTopValues}, {"Y_top_indices", Summary::kTopIndices}};
    if (small.log_sum_exp) {
      wanted.insert(wanted.end(), {{"Y_log_sum_exp", Summary::kLogSumExp}, {"Y_maximum", Summary::kMaximum}});
    }
    if (small.entropy) wanted.emplace_back("Y_entropy", Summary::kEntropy);
    if (with_tensor) {
      request.add_outputs()->set_name("Y");
      for (const auto& [name, part] : wanted) request.add_outputs()->set_name(name);
    }
    const ModelInferResponse response = Answer(request);
    ASSERT_EQ(response.outputs_size(), static_cast<int>(wanted.size()) + with_tensor) << seed;
    if (with_tensor) ExpectRight(small.question, response);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const int output = static_cast<int>(i) + with_tensor;
      EXPECT_EQ(response.outputs(output).name(), wanted[i].first);
      const std::span<const std::byte> bytes = native->summary().bytes(wanted[i].second);
      const std::string& raw = response.raw_output_contents(output);
      EXPECT_EQ(raw, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())) << seed << wanted[i].first;
    }
  }
  EXPECT_GT(asked, 100);
}

TEST_F(SmallOip, FurtherOutputsHaveTheShapeWithoutTheAxis) {
  ModelInferRequest request = RequestOf(MakeQuestion({3, 7, 5}, 1, kernels::DataType::kFloat16));
  auto& parameters = *request.mutable_parameters();
  parameters["axis"].set_int64_param(1);
  parameters["top_k"].set_int64_param(2);
  parameters["log_sum_exp"].set_bool_param(true);
  for (const char* name : {"Y_log_sum_exp", "Y_top_indices", "Y_top_values"}) request.add_outputs()->set_name(name);
  const ModelInferResponse response = Answer(request);
  ASSERT_EQ(response.outputs_size(), 3);  // in their own order
  EXPECT_EQ(response.outputs(0).name(), "Y_top_values");
  EXPECT_EQ(response.outputs(0).datatype(), "FP16");
  EXPECT_EQ(ShapeOf(response, 0), (std::vector<std::int64_t>{3, 5, 2}));
  EXPECT_EQ(response.outputs(1).datatype(), "INT32");
  EXPECT_EQ(ShapeOf(response, 1), (std::vector<std::int64_t>{3, 5, 2}));
  EXPECT_EQ(response.outputs(2).name(), "Y_log_sum_exp");
  EXPECT_EQ(response.outputs(2).datatype(), "FP32");
  EXPECT_EQ(ShapeOf(response, 2), (std::vector<std::int64_t>{3, 5, 1}));
}

// The texts of a BYTES output.
std::vector<std::string> TextsOf(const std::string& raw) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < raw.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, raw.data() + at, sizeof(size));
    texts.push_back(raw.substr(at + sizeof(size), size));
    at += sizeof(size) + size;
  }
  return texts;
}

// As Triton answers it.
TEST_F(SmallOip, ClassificationIsTheBestClassesAsTexts) {
  for (const std::int64_t columns : {1000, 128256}) {
    const Question question = MakeQuestion({1, columns}, 9);
    ModelInferRequest request = RequestOf(question);
    const ModelInferResponse whole = Answer(request);
    auto* const output = request.add_outputs();
    output->set_name("Y");
    (*output->mutable_parameters())["classification"].set_int64_param(5);
    const ModelInferResponse response = Answer(request);
    ASSERT_EQ(response.outputs_size(), 1);
    EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
    EXPECT_EQ(ShapeOf(response, 0), (std::vector<std::int64_t>{1, 5}));
    std::vector<float> values(static_cast<std::size_t>(columns));
    std::memcpy(values.data(), whole.raw_output_contents(0).data(), values.size() * sizeof(float));
    std::vector<std::size_t> order(values.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    std::vector<std::string> best;
    for (std::size_t i = 0; i < 5; ++i)
      best.push_back(std::to_string(values[order[i]]) + ":" + std::to_string(order[i]));
    EXPECT_EQ(TextsOf(response.raw_output_contents(0)), best);
  }
}

TEST_F(SmallOip, ClassesOfEveryKindOfRow) {
  Question question = MakeQuestion({2, 3}, 1);
  const float rows[] = {1, 3, 2, NAN, 0, 0};
  std::memcpy(question.data.data(), rows, sizeof(rows));
  question.operation = kernels::Operation::kLogSoftmax;
  ModelInferRequest request = RequestOf(question);
  request.add_outputs()->set_name("Y");
  auto& parameters = *request.mutable_outputs(0)->mutable_parameters();
  parameters["classification"].set_int64_param(1000);  // of three columns there are three
  const ModelInferResponse response = Answer(request);
  EXPECT_EQ(ShapeOf(response, 0), (std::vector<std::int64_t>{2, 3}));
  EXPECT_THAT(TextsOf(response.raw_output_contents(0)),
              ::testing::ElementsAre("-0.407606:1", "-1.407606:2", "-2.407606:0", "nan:0", "nan:1", "nan:2"));
  // On a stream, and of several inputs one as classes.
  *request.add_inputs() = request.inputs(0);
  request.mutable_inputs(1)->set_name("X2");
  request.add_raw_input_contents(request.raw_input_contents(0));
  request.add_outputs()->set_name("Y2");
  const auto context = Context();
  const auto stream = stub_->ModelStreamInfer(context.get());
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  inference::ModelStreamInferResponse streamed;
  ASSERT_TRUE(stream->Read(&streamed));
  EXPECT_EQ(streamed.error_message(), "");
  ASSERT_EQ(streamed.infer_response().outputs_size(), 2);
  EXPECT_EQ(TextsOf(streamed.infer_response().raw_output_contents(0)).size(), 6u);
  ExpectRight(question, streamed.infer_response(), 1);
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace softmax::testing
