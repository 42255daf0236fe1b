#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>

#include "client/softmax_client/softmax_client.h"
#include "client/softmax_client/wire.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/support/all_operations.h"

namespace softmax::client {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    options.target = server_.address();
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  FakeServer server_;
};

TEST_F(ClientTest, ThreeNumbersComeBackAsTheirSoftmax) {
  const std::vector<float> values = {1, 2, 3};
  const std::vector<std::int64_t> shape = {1, 3};
  const auto answer = Connect()->Softmax(ViewOf(values, shape));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->values<float>().size(), 3u);
  EXPECT_FLOAT_EQ(answer->values<float>()[0], 0.09003057f);
  EXPECT_FLOAT_EQ(answer->values<float>()[1], 0.24472848f);
  EXPECT_FLOAT_EQ(answer->values<float>()[2], 0.66524094f);
  EXPECT_TRUE(answer->values<double>().empty());
  EXPECT_EQ(answer->timing().execution_ns, 1234u);
  EXPECT_EQ(answer->timing().batch_rows, 1u);
}

TEST_F(ClientTest, EveryTypePairOperationAndSizeIsRight) {
  const auto client = Connect();
  const DataType types[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64};
  for (const DataType in : types) {
    for (const DataType out : types) {
      for (const Operation operation : testing::AllOperations<Operation>()) {
        for (const std::int64_t cols : {1, 31, 9001}) {  // 9001 x 2 goes beyond the size that is copied
          const Sample input = MakeSample(in, {2, cols}, 7);
          SoftmaxOptions options;
          options.operation = operation;
          options.output_dtype = out;
          const auto answer = client->Softmax(input.view(), options);
          ASSERT_TRUE(answer.ok()) << answer.status();
          EXPECT_EQ(answer->dtype(), out);
          EXPECT_EQ(Wrong(input, *answer, options), "") << NameOf(in) << NameOf(out) << cols;
        }
      }
    }
  }
}

TEST_F(ClientTest, AxisScaleAndLengthsReachTheServer) {
  const auto client = Connect();
  const Sample input = MakeSample(DataType::kFloat32, {3, 7, 5}, 8);
  for (const std::int32_t axis : {-3, -2, -1, 0, 1, 2}) {
    const std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
    const auto cols = static_cast<std::uint32_t>(input.shape[at]);
    std::vector<std::uint32_t> lengths(105 / cols);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = static_cast<std::uint32_t>(i) % (cols + 1);
    }
    SoftmaxOptions options;
    options.axis = axis;
    options.scale = 0.25;
    options.lengths = lengths;
    const auto answer = client->Softmax(input.view(), options);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(Wrong(input, *answer, options), "") << axis;
    // The judge can fail: the same answer is not right for another scale.
    options.scale = 0.5;
    EXPECT_NE(Wrong(input, *answer, options), "");
  }
}

TEST_F(ClientTest, AnswersIntoTheCallersBuffer) {
  const auto client = Connect();
  std::vector<float> values(20000, 1.5f);
  const std::vector<std::int64_t> shape = {2, 10000};
  ServerTiming timing;
  const auto bytes = std::as_writable_bytes(std::span(values));
  const absl::Status status = client->SoftmaxInto(ViewOf(values, shape), bytes, {}, &timing);  // in place
  ASSERT_TRUE(status.ok()) << status;
  for (const float value : values) ASSERT_FLOAT_EQ(value, 1e-4f);
  EXPECT_EQ(timing.batch_rows, 2u);
  EXPECT_THAT(client->SoftmaxInto(ViewOf(values, shape), bytes.subspan(4)).message(),
              HasSubstr("output: 79996 bytes, but the answer has 80000"));
}

TEST_F(ClientTest, EmptyTensorsAreAnsweredEmpty) {
  const std::vector<std::int64_t> shape = {4, 0};
  const auto answer = Connect()->Softmax(ViewOf(std::span<const float>(), shape));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->shape(), shape);
  EXPECT_TRUE(answer->data().empty());
}

TEST_F(ClientTest, WorksOverAUnixSocket) {
  const std::string path = ::testing::TempDir() + "client_test.sock";
  FakeServer server("unix:" + path);
  auto client = Client::Create({.target = server.address()});
  ASSERT_TRUE(client.ok());
  const Sample input = MakeSample(DataType::kFloat32, {100, 1000}, 3);
  const auto answer = (*client)->Softmax(input.view());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Wrong(input, *answer), "");
}

TEST_F(ClientTest, SlipsAreRefusedBeforeTheyAreSent) {
  const auto client = Connect();
  const std::vector<float> values(6);
  const std::vector<std::int64_t> shape = {2, 3};
  const auto message = [&](const TensorView& view, const SoftmaxOptions& options = {}) {
    const auto answer = client->Softmax(view, options);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(answer.status().message());
  };
  const std::vector<std::int64_t> wrong = {2, 4};
  EXPECT_THAT(message(ViewOf(values, wrong)), HasSubstr("data: 24 bytes, but the shape and float32 need 32"));
  const std::vector<std::int64_t> negative = {-2, -3};
  EXPECT_THAT(message(ViewOf(values, negative)), HasSubstr("shape"));
  const std::vector<std::int64_t> huge = {1ll << 40, 1ll << 40};
  EXPECT_THAT(message(ViewOf(values, huge)), HasSubstr("shape"));
  EXPECT_THAT(message(ViewOf(values, {})), HasSubstr("rank 0"));
  EXPECT_THAT(message(ViewOf(values, shape), {.axis = 2}), HasSubstr("axis: 2"));
  EXPECT_THAT(message(ViewOf(values, shape), {.scale = 0}), HasSubstr("scale"));
  EXPECT_THAT(message(ViewOf(values, shape), {.scale = NAN}), HasSubstr("scale"));
  EXPECT_EQ(server_.requests(), 0);
}

TEST_F(ClientTest, TheServersWordsArriveWithItsAddress) {
  const auto client = Connect();
  const Sample input = MakeSample(DataType::kFloat32, {2, 13}, 1);
  const auto answer = client->Softmax(input.view());
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answer.status().message(), server_.address() + ": input.shape: dimension 13 is not allowed here");
  server_.behavior().refuse = true;
  const Sample good = MakeSample(DataType::kFloat32, {2, 12}, 1);
  EXPECT_EQ(client->Softmax(good.view()).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ClientTest, AnAnswerAboveTheReceiveLimitIsRefused) {
  const auto client = Connect({.max_receive_bytes = 1000});
  const Sample input = MakeSample(DataType::kFloat32, {1, 300}, 1);
  EXPECT_EQ(client->Softmax(input.view()).status().code(), absl::StatusCode::kResourceExhausted);
  const Sample small = MakeSample(DataType::kFloat32, {1, 200}, 1);
  EXPECT_TRUE(client->Softmax(small.view()).ok());
}

TEST(ClientWithoutServerTest, AWaitForNobodyEndsInWords) {
  const absl::Status waited = (*Client::Create({.target = "127.0.0.1:1"}))->WaitForConnection(milliseconds(200));
  EXPECT_EQ(waited.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(waited.message()), HasSubstr("within 200 ms; at last: 127.0.0.1:1: nobody listens there"));
}

TEST_F(ClientTest, AsynchronousErrorsCallBackOnce) {
  const auto client = Connect();
  std::promise<absl::Status> refused;
  const std::vector<float> values(3);
  const std::vector<std::int64_t> wrong = {4};
  client->SoftmaxAsync(ViewOf(values, wrong), {}, [&](absl::StatusOr<Tensor> a) { refused.set_value(a.status()); });
  EXPECT_EQ(refused.get_future().get().code(), absl::StatusCode::kInvalidArgument);
  server_.behavior().delay_ms = 5000;
  std::promise<absl::Status> late;
  const std::vector<std::int64_t> shape = {3};
  client->SoftmaxAsync(ViewOf(values, shape), {.timeout = milliseconds(50)},
                       [&](absl::StatusOr<Tensor> a) { late.set_value(a.status()); });
  EXPECT_EQ(late.get_future().get().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, ItsEndCancelsAsynchronousCallsAndAwaitsTheirCallbacks) {
  server_.behavior().delay_ms = 3000;
  std::atomic<int> cancelled = 0;
  const Sample input = MakeSample(DataType::kFloat32, {100, 1000}, 1);
  auto client = Connect();
  for (int i = 0; i < 10; ++i) {
    client->SoftmaxAsync(input.view(), {}, [&](absl::StatusOr<Tensor> answer) {
      if (answer.status().code() == absl::StatusCode::kCancelled) ++cancelled;
    });
  }
  client.reset();
  EXPECT_EQ(cancelled, 10);
}

}  // namespace
}  // namespace softmax::client
