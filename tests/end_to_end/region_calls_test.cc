// Requests whose tensors lie in regions, against a whole server.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "common/wire/tensor_spec.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/region_client.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMega = 1 << 20;
constexpr std::uint64_t kWholeRegion = 16 * kMega;

class RegionCalls : public ::testing::Test {
 protected:
  RegionCalls()
      : service_([this](server::Config& config) {
          config.regions_socket = folder_.path("regions");
          config.regions_bytes = 64 * kMega;
          config.max_request_bytes = config.max_response_bytes = 4 * kMega;
          config.arena_bytes = 32 * kMega;
        }),
        client_(folder_.path("regions")),
        stub_(v1::SoftmaxService::NewStub(service_.NewChannel())) {
    const auto answer = client_.Allocate(kWholeRegion);
    token_ = answer->reply.region().token();
    region_ = std::make_unique<MappedRegion>(*answer);
  }

  v1::Place At(std::uint64_t offset) const {
    v1::Place place;
    place.set_region(token_);
    place.set_offset(offset);
    return place;
  }
  void PutInput(const Question& question, std::uint64_t offset, v1::SoftmaxRequest* request) {
    std::memcpy(region_->data() + offset, question.data.data(), question.data.size());
    request->mutable_input()->clear_data();
    *request->mutable_input()->mutable_place() = At(offset);
  }
  grpc::Status Call(const v1::SoftmaxRequest& request, v1::SoftmaxResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return stub_->Softmax(&context, request, response);
  }
  std::span<const std::byte> Region(std::uint64_t offset, std::uint64_t bytes) const {
    return {region_->data() + offset, bytes};
  }
  static std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

  TempFolder folder_;
  Service service_;
  RegionClient client_;
  std::string token_;
  std::unique_ptr<MappedRegion> region_;
  std::unique_ptr<v1::SoftmaxService::Stub> stub_;
};

TEST_F(RegionCalls, EveryPartMayLieThereOrTravel) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Question question = RandomQuestion(seed, 20'000);
    const std::uint64_t bytes =
        question.data.size() / kernels::SizeOf(question.input_type) * kernels::SizeOf(question.output_type);
    v1::SoftmaxRequest request = NativeRequestOf(question);
    const std::uint64_t input_at = 8 * (seed % 7), output_at = 4 * kMega + 8 * (seed % 5);
    const bool in_place =
        seed % 8 == 7 && kernels::SizeOf(question.input_type) == kernels::SizeOf(question.output_type);
    if ((seed & 1) != 0) PutInput(question, input_at, &request);
    if ((seed & 2) != 0) *request.mutable_output_place() = At(in_place ? input_at : output_at);
    v1::SoftmaxResponse response;
    const grpc::Status status = Call(request, &response);
    ASSERT_TRUE(status.ok()) << seed << ": " << status.error_message();
    EXPECT_EQ(response.output().shape_size(), request.input().shape_size());
    std::span<const std::byte> answer = BytesOf(response.output().data());
    if (request.has_output_place()) {
      EXPECT_TRUE(answer.empty());
      EXPECT_EQ(response.output().place().SerializeAsString(), request.output_place().SerializeAsString());
      answer = Region(request.output_place().offset(), bytes);
    }
    const kernels::Judgement judgement = JudgeAnswer(question, answer);
    ASSERT_TRUE(judgement.ok) << seed << ": " << judgement.message;
    if (request.input().has_place() && !in_place) {
      EXPECT_EQ(std::memcmp(region_->data() + input_at, question.data.data(), question.data.size()), 0);
    }
  }
}

TEST_F(RegionCalls, ASummaryThereIsTheOneThatTravels) {
  const Question question = MakeQuestion({50, 300}, 1);
  v1::SoftmaxRequest request = NativeRequestOf(question);
  v1::SummaryRequest& summary = *request.mutable_summary();
  summary.set_top_k(3);
  summary.set_log_sum_exp(true);
  summary.set_entropy(true);
  std::string indices(50 * 4, '\0');
  indices[0] = 7;
  summary.set_indices(indices);
  v1::SoftmaxResponse sent;
  ASSERT_TRUE(Call(request, &sent).ok());
  PutInput(question, 0, &request);
  *request.mutable_summary_place() = At(8 * kMega);
  for (const bool full : {false, true}) {
    summary.set_full(full);
    std::memset(region_->data() + 8 * kMega, 0, 4096);
    if (full) *request.mutable_output_place() = At(0);  // the input's, which the summary is made of first
    v1::SoftmaxResponse response;
    const grpc::Status status = Call(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.summary().place().offset(), 8 * kMega);
    EXPECT_TRUE(response.summary().top_values().empty());
    std::uint64_t at = 8 * kMega;
    for (const std::string* part :
         {&sent.summary().top_values(), &sent.summary().top_indices(), &sent.summary().values_at(),
          &sent.summary().log_sum_exp(), &sent.summary().maximum(), &sent.summary().entropy()}) {
      ASSERT_FALSE(part->empty());
      EXPECT_EQ(std::memcmp(region_->data() + at, part->data(), part->size()), 0);
      at += (part->size() + 7) / 8 * 8;
    }
    EXPECT_EQ(response.has_output(), full);
    if (!full) continue;
    EXPECT_TRUE(JudgeAnswer(question, Region(0, question.data.size())).ok);
  }
}

TEST_F(RegionCalls, ATensorMayBeLargerThanAnyMessage) {
  const Question question = MakeQuestion({512, 4096}, 2);  // 8 MiB
  v1::SoftmaxRequest request = NativeRequestOf(question);
  PutInput(question, 0, &request);
  *request.mutable_output_place() = At(8 * kMega);
  v1::SoftmaxResponse response;
  const grpc::Status status = Call(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(JudgeAnswer(question, Region(8 * kMega, 8 * kMega)).ok);
  EXPECT_EQ(service_.server().slabs_used(), 0u);
}

TEST_F(RegionCalls, RequestsOfAStreamGoTheSameWay) {
  grpc::ClientContext context;
  const auto stream = stub_->SoftmaxStream(&context);
  std::vector<Question> questions;
  v1::SoftmaxStreamRequest message;
  for (std::uint64_t i = 0; i < 64; ++i) {
    questions.push_back(MakeQuestion({4, 1000}, i));
    v1::SoftmaxRequest request = NativeRequestOf(questions.back(), i);
    if (i % 3 != 0) PutInput(questions.back(), i * 16'000, &request);
    if (i % 3 != 1) *request.mutable_output_place() = At(2 * kMega + i * 16'000);
    if (i == 40) request.mutable_output_place()->set_region(std::string(16, 'x'));
    *message.add_requests() = request;
  }
  ASSERT_TRUE(stream->Write(message));
  stream->WritesDone();
  int answered = 0;
  for (v1::SoftmaxStreamResponse responses; stream->Read(&responses);) {
    for (const v1::SoftmaxResponse& response : responses.responses()) {
      ++answered;
      if (response.id() == 40) {
        EXPECT_EQ(response.status().code(), grpc::StatusCode::NOT_FOUND);
        continue;
      }
      ASSERT_EQ(response.status().code(), 0) << response.status().message();
      const bool travels = response.id() % 3 == 1;
      EXPECT_EQ(response.output().has_place(), !travels);
      EXPECT_TRUE(JudgeAnswer(questions[response.id()], travels ? BytesOf(response.output().data())
                                                                : Region(2 * kMega + response.id() * 16'000, 16'000))
                      .ok)
          << response.id();
    }
  }
  EXPECT_EQ(answered, 64);
  EXPECT_TRUE(stream->Finish().ok());
}

// Its client ends it while the kernels work there.
TEST_F(RegionCalls, ARegionThatEndsLastsForItsRequests) {
  for (int round = 0; round < 20; ++round) {
    RegionClient client(folder_.path("regions"));
    const auto answer = client.Allocate(4 * kMega);
    ASSERT_TRUE(answer && answer->reply.status().code() == 0);
    const MappedRegion region(*answer);
    const Question question = MakeQuestion({256, 4096}, 4);
    std::memcpy(region.data(), question.data.data(), question.data.size());
    v1::SoftmaxRequest request = NativeRequestOf(question);
    request.mutable_input()->clear_data();
    request.mutable_input()->mutable_place()->set_region(answer->reply.region().token());
    v1::SoftmaxResponse response;
    grpc::Status status;
    std::thread call([&] { status = Call(request, &response); });
    LetPass(std::chrono::microseconds(200 * round));
    client.Close();
    call.join();
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) continue;
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(JudgeAnswer(question, BytesOf(response.output().data())).ok);
  }
}

// Another client's answers stay right, no index leaves its row, and nothing crashes.
TEST_F(RegionCalls, WhoWritesThereDuringACallHarmsOnlyItself) {
  std::atomic<bool> stops{false};
  std::thread scribbler([&] {
    const std::uint32_t bits[] = {0,          0x7f800000, 0xff800000, 0x7fc00000,
                                  0x3f800000, 0x42c80000, 0xffffffff, 0x00000001};
    for (std::uint32_t i = 1; !stops; i = i * 1664525 + 1013904223) {
      std::memcpy(region_->data() + i % (kMega / 4) * 4, &bits[i >> 29], 4);
    }
  });
  const Question other = MakeQuestion({16, 1000}, 5);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t cols = 1 + round * 37 % 3000;
    const auto k = static_cast<std::uint32_t>(1 + round * 7 % 1024);
    v1::SoftmaxRequest request = NativeRequestOf(MakeQuestion({20, cols}, 6));
    request.mutable_input()->clear_data();
    *request.mutable_input()->mutable_place() = At(0);
    request.mutable_summary()->set_top_k(k);
    request.mutable_summary()->set_full(true);
    v1::SoftmaxResponse response;
    const grpc::Status status = Call(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (std::size_t i = 0; i < 20 * k; ++i) {
      std::int32_t index = 0;
      std::memcpy(&index, response.summary().top_indices().data() + 4 * i, 4);
      ASSERT_TRUE(index >= -1 && index < cols) << index;
    }
    ASSERT_TRUE(Call(NativeRequestOf(other), &response).ok());
    ASSERT_TRUE(JudgeAnswer(other, BytesOf(response.output().data())).ok);
  }
  stops = true;
  scribbler.join();
}

}  // namespace
}  // namespace softmax::testing
