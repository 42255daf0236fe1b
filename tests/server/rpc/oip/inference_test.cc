#include "server/rpc/oip/inference.h"

#include <grpc/byte_buffer.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using kernels::DataType;

constexpr std::size_t kSlab = 4096;
constexpr std::size_t kMemory = 256 * kSlab;
constexpr std::uint64_t kTensorBytes = 64;

// Of two tensors, one of each output type, and so in batches of their own.
class InferenceTest : public ::testing::Test, public Inference::Owner {
 protected:
  InferenceTest() {
    const std::string bytes(2 * kTensorBytes, '\0');
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes.data(), bytes.size());
    message_ = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    for (const DataType output : {DataType::kFloat32, DataType::kFloat64}) {
      InferTensor& tensor = inference_.request().tensors.emplace_back();
      tensor.request.spec.outer = 1;
      tensor.request.spec.cols = kTensorBytes / 4;
      tensor.request.spec.output_type = output;
    }
    inference_.request().tensors[1].request.payload_offset = kTensorBytes;
  }
  ~InferenceTest() override { grpc_byte_buffer_destroy(message_); }

  MessageView Message() const override { return MessageView(message_); }
  void InputTaken() override { ++inputs_taken_; }
  bool CallerLeft() const override { return false; }
  SlicedWork& slices() override { return slices_; }
  const Connection* connection_of() const override { return nullptr; }
  void Completed(const Answer& answer) override {
    ++completions_;
    answer_ = answer;
  }

  void Submit(TimePoint deadline = kNoDeadline) {
    inference_.Submit(admission_, &share_, CallKind::kUnary, now_, deadline);
    batcher_.Flush(now_);
  }
  void Finish(absl::Status status = absl::OkStatus()) {
    lane_.FinishOne(std::move(status));
    batcher_.Poll();
  }

  static TimePoint Now() { return now_; }
  static inline TimePoint now_ = SteadyClock::now();
  testing::TestMemory memory_{kMemory};
  Arena arena_{memory_.data(), kMemory, kSlab};
  Backlog backlog_{{.threads = 0}, arena_};
  testing::PuppetLane lane_;
  testing::CountingRecorder recorder_;
  UnreadBudget budget_{1u << 20};
  Batcher batcher_{{.batch = {.bytes = 8 * kSlab}}, arena_, backlog_, lane_, recorder_, [] {}};
  AdmissionQueue admission_{{}, batcher_, budget_, Now};
  ConnectionShare share_;
  SlicedWork slices_;
  grpc_byte_buffer* message_;
  int inputs_taken_ = 0;
  int completions_ = 0;
  Answer answer_;
  Inference inference_{this};
};

TEST_F(InferenceTest, ItIsCompleteWithTheLastOfItsTensors) {
  Submit();
  ASSERT_EQ(lane_.running.size(), 2u);
  EXPECT_EQ(inputs_taken_, 1);
  Finish();
  EXPECT_EQ(completions_, 0);
  Finish();
  EXPECT_EQ(completions_, 1);
  EXPECT_EQ(answer_.status, absl::OkStatus());
  EXPECT_TRUE(answer_.ran);
  EXPECT_EQ(inference_.rows(), 2u);
  EXPECT_EQ(inference_.copied_bytes(), 2 * kTensorBytes);
  EXPECT_EQ(inference_.largest_output(), 2 * kTensorBytes);
  EXPECT_EQ(share_.in_flight_bytes + share_.owed_bytes(), 0u);
}

// Whichever it is.
TEST_F(InferenceTest, OneTensorsErrorIsThatOfTheWhole) {
  Submit();
  Finish();
  Finish(absl::InternalError("gone"));
  EXPECT_EQ(answer_.status, absl::InternalError("gone"));
}

TEST_F(InferenceTest, TheFirstErrorIsTold) {
  Submit();
  Finish(absl::InternalError("first"));
  Finish(absl::InternalError("second"));
  EXPECT_EQ(completions_, 1);
  EXPECT_EQ(answer_.status, absl::InternalError("first"));
}

TEST_F(InferenceTest, ItsOwnTimeoutHoldsWhereItIsSooner) {
  inference_.request().timeout_us = 1000;
  Submit(now_ + std::chrono::hours(1));
  EXPECT_EQ(inference_.deadline(), now_ + std::chrono::milliseconds(1));
  Finish();
  Finish();
}

TEST_F(InferenceTest, APassedDeadlineEndsAllOfIt) {
  Submit(now_);
  EXPECT_EQ(completions_, 1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer_.status)) << answer_.status;
  EXPECT_FALSE(answer_.ran);
  EXPECT_EQ(share_.in_flight_bytes, 0u);
}

TEST_F(InferenceTest, AnIdThatIsANumberStandsInTheLog) {
  for (const auto& [id, number] : {std::pair("42", 42u), {"", 0u}, {"a request", 0u}}) {
    inference_.request().id = id;
    EXPECT_EQ(inference_.log_id(), number) << id;
  }
}

}  // namespace
}  // namespace softmax::server
