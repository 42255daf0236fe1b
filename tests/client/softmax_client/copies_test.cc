#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "client/softmax_client/request.h"
#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/sample.h"
#include "tests/client/support/server_program.h"
#include "tests/common/wire/counting_new.h"

// The client's own copies of a tensor: none on the way out, one on the way in. All that our code makes goes through
// operator new; gRPC's buffers for what it receives do not.
namespace softmax::client {
namespace {

constexpr std::size_t kPayload = 16 << 20;
constexpr std::size_t kSmallChange = 256 << 10;

class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() {
    // The server answers the same tensor from memory the second time; connections and limits are there then too.
    const absl::Status status = client_->Softmax(input_.view()).status();
    EXPECT_TRUE(status.ok()) << status;
  }

  template <typename Call>
  std::size_t HeapBytesOf(Call call) {
    const std::size_t before = softmax::testing::HeapUseSoFar().bytes;
    call();
    return softmax::testing::HeapUseSoFar().bytes - before;
  }

  const Sample input_ = MakeSample(DataType::kFloat32, {1, kPayload / 4}, 1);
  ServerProgram server_{FreeAddress()};
  const std::unique_ptr<Client> client_ =
      *Client::Create({.target = server_.address(), .deadline = std::chrono::minutes(2)});
};

TEST_F(CopiesTest, IntoTheCallersMemoryNothingIsCopiedOnTheWay) {
  std::vector<std::byte> output(kPayload);
  const std::size_t bytes = HeapBytesOf([&] { EXPECT_TRUE(client_->SoftmaxInto(input_.view(), output).ok()); });
  EXPECT_LT(bytes, kSmallChange);
}

TEST_F(CopiesTest, ATensorComesWithOneCopy) {
  for (const bool async : {false, true}) {
    const std::size_t bytes = HeapBytesOf([&] {
      EXPECT_TRUE((async ? client_->SoftmaxFuture(input_.view()).get() : client_->Softmax(input_.view())).ok());
    });
    EXPECT_GE(bytes, kPayload);  // the counter counts
    EXPECT_LT(bytes, kPayload + kSmallChange);
  }
}

TEST_F(CopiesTest, ABatchCopiesEachAnswerOnce) {
  const BatchItem item{input_.view()};
  const std::size_t bytes = HeapBytesOf([&] { EXPECT_TRUE(client_->SoftmaxBatch({&item, 1})[0].ok()); });
  EXPECT_LT(bytes, kPayload + kSmallChange);
}

TEST(RequestSlicesTest, ALargeTensorIsSentFromWhereItLies) {
  const std::vector<float> values(kPayload / 4);
  const std::vector<std::int64_t> shape = {1, kPayload / 4};
  const OutgoingRequest request =
      WithTensor(HeaderOf(ViewOf(values, shape), {}, {}, 0, Framing::kUnary), std::as_bytes(std::span(values)));
  ASSERT_EQ(request.slices.size(), 2u);
  EXPECT_EQ(static_cast<const void*>(request.slices[1].begin()), static_cast<const void*>(values.data()));
  EXPECT_EQ(request.slices[1].size(), kPayload);
  EXPECT_LT(request.slices[0].size(), 64u);
}

}  // namespace
}  // namespace softmax::client
