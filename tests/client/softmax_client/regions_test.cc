#include "client/softmax_client/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/softmax_client/request.h"
#include "client/softmax_client/softmax_client.h"
#include "softmax/v1/regions.pb.h"
#include "tests/client/support/fake_regions.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace softmax::client {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kSoon(60);

class RegionsTest : public ::testing::Test {
 protected:
  RegionsTest() { server_.Share(shared_); }

  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    options.target = server_.address();
    options.deadline = kSoon;
    return *Client::Create(options);
  }

  // The sample's values at that place, as a view.
  static TensorView Put(const Region& region, std::size_t offset, const Sample& sample) {
    EXPECT_TRUE(region.Write(offset, sample.data).ok());
    return {sample.dtype, sample.shape, region.At<std::byte>(offset, sample.data.size())};
  }

  softmax::testing::TempFolder folder_;
  FakeRegions shared_{folder_.path("regions.sock")};
  FakeServer server_;
  const Sample sample_ = MakeSample(DataType::kFloat32, {4, 64}, 3);
};

TEST_F(RegionsTest, TensorsThatLieThereDoNotTravel) {
  const auto client = Connect();
  const auto region = client->AllocateRegion(10000);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(region->size(), 12288u);  // whole pages
  const TensorView input = Put(*region, 0, sample_);
  for (const std::size_t at : {std::size_t{0}, std::size_t{4096}}) {  // in place last: it overwrites the input
    SoftmaxOptions into;
    into.output = region->At<std::byte>(4096 - at, sample_.data.size());
    const auto answer = client->Softmax(input, into);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->data().data(), into.output.data());
    EXPECT_EQ(Wrong(sample_, *answer), "");
  }
  EXPECT_EQ(server_.placed(), 2);
}

TEST_F(RegionsTest, TheirPartnersMayLieElsewhere) {
  const auto client = Connect();
  const Region region = *client->AllocateRegion(10000);
  // The input there, the answer in the message.
  auto answer = client->Softmax(Put(region, 0, sample_));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Wrong(sample_, *answer), "");
  // The answer there, the input in the message.
  SoftmaxOptions into;
  into.output = region.At<std::byte>(4096, sample_.data.size());
  answer = client->Softmax(sample_.view(), into);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Wrong(sample_, *answer), "");
  EXPECT_EQ(server_.placed(), 2);
  // Neither, though the answer is put into the caller's memory.
  std::vector<std::byte> memory(sample_.data.size());
  into.output = memory;
  answer = client->Softmax(sample_.view(), into);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->data().data(), memory.data());
  EXPECT_EQ(Wrong(sample_, *answer), "");
  EXPECT_EQ(server_.placed(), 2);
}

TEST_F(RegionsTest, EveryKindOfCallTakesThem) {
  const auto client = Connect();
  const Region region = *client->AllocateRegion(100000);
  const std::size_t bytes = sample_.data.size();
  std::vector<BatchItem> items;
  for (std::size_t i = 0; i < 4; ++i) {
    items.push_back({Put(region, i * 2 * bytes, sample_)});
    items.back().options.output = region.At<std::byte>((i * 2 + 1) * bytes, bytes);
  }
  for (const auto& answer : client->SoftmaxBatch(items)) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(Wrong(sample_, *answer), "");
  }
  EXPECT_EQ(server_.placed(), 4);
  const auto later = client->SoftmaxFuture(items[0].input, items[0].options).get();
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->data().data(), items[0].options.output.data());
  EXPECT_TRUE(client->SoftmaxInto(items[1].input, items[1].options.output).ok());
  EXPECT_EQ(server_.placed(), 6);
}

TEST_F(RegionsTest, WhatIsNotAlignedForItsTypeTravels) {
  const auto client = Connect();
  const Region region = *client->AllocateRegion(10000);
  const auto answer = client->Softmax(Put(region, 2, sample_));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Wrong(sample_, *answer), "");
  EXPECT_EQ(server_.placed(), 0);
}

TEST_F(RegionsTest, ALargeTensorIsBoundedByTheRegionsLimit) {
  const auto client = Connect();
  ASSERT_TRUE(client->GetServerInfo().ok());
  const Region region = *client->AllocateRegion((64 << 20) + 8);
  const std::vector<std::int64_t> shape = {1, (16 << 20) + 1};
  const auto answer = client->Softmax(ViewOf(region.At<float>(0, (16 << 20) + 1), shape));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(answer.status().message(),
              HasSubstr("data: 67108868 bytes, above the server's regions.max_tensor_bytes of "
                        "67108864"));
  EXPECT_EQ(server_.requests(), 0);
}

TEST_F(RegionsTest, AreGivenBackWhenNobodyUsesThem) {
  const auto client = Connect();
  {
    const Region first = *client->AllocateRegion(4096);
    Region second = *client->AllocateRegion(4096);
    EXPECT_EQ(shared_.regions(), 2u);
    second = Region();
    EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 1; }, kSoon));
  }
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 0; }, kSoon));
  EXPECT_EQ(shared_.connections(), 1);
}

TEST_F(RegionsTest, ARegionOutlivesItsClientAndACallItsRegion) {
  auto client = Connect();
  auto region = std::make_unique<Region>(*client->AllocateRegion(10000));
  const TensorView input = Put(*region, 0, sample_);
  SoftmaxOptions into;
  into.output = region->At<std::byte>(4096, sample_.data.size());
  server_.behavior().delay_ms = 200;
  auto later = client->SoftmaxFuture(input, into);
  region.reset();  // the call holds the memory
  const auto answer = later.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  Region last = *client->AllocateRegion(4096);
  client.reset();
  last.At<float>(0, 1)[0] = 1;
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 1; }, kSoon));
}

// The old memory stays mapped, for the program cannot know when the server goes.
TEST_F(RegionsTest, WhenTheServerGoesCallsAreNotFoundAndNewRegionsCanBeHad) {
  const auto client = Connect();
  const Region region = *client->AllocateRegion(10000);
  const TensorView input = Put(region, 0, sample_);
  shared_.EndAll();
  const auto answer = client->Softmax(input);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(answer.status().message(), HasSubstr("input.place.region"));
  EXPECT_EQ(server_.requests(), 1);  // not tried again
  const auto next = client->AllocateRegion(10000);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(client->Softmax(Put(*next, 0, sample_)).ok());
}

// It might still run and write there, when the place is another call's.
TEST_F(RegionsTest, WhatMayStillRunIsNotSentAgain) {
  const auto client = Connect();
  const Region region = *client->AllocateRegion(10000);
  const TensorView input = Put(region, 0, sample_);
  SoftmaxOptions into;
  into.output = region.At<std::byte>(4096, sample_.data.size());
  server_.behavior().fail_next = 1;
  EXPECT_EQ(client->Softmax(input, into).status().code(), absl::StatusCode::kUnavailable);
  const BatchItem item{input, into};
  server_.behavior().fail_next = 1;
  EXPECT_EQ(client->SoftmaxBatch({&item, 1})[0].status().code(), absl::StatusCode::kUnavailable);
  // A refusal has not run, and what only reads may run twice.
  server_.behavior().fail_next = 1;
  EXPECT_TRUE(client->Softmax(input).ok());
  server_.behavior().fail_code = static_cast<int>(absl::StatusCode::kResourceExhausted);
  server_.behavior().pushback_ms = 1;
  server_.behavior().fail_next = 1;
  EXPECT_TRUE(client->Softmax(input, into).ok());
}

TEST_F(RegionsTest, DeviceMemoryIsMappedByTheDriverOnTheSameDevice) {
  const auto client = Connect();
  {
    const auto region = client->AllocateRegion(10000, Memory::kDevice);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_EQ(region->memory(), Memory::kDevice);
    EXPECT_EQ(region->device(), 5u);  // the server's number
    EXPECT_EQ(region->cuda_device(), 1);
    SoftmaxOptions into;
    into.output = region->At<std::byte>(4096, sample_.data.size());
    const auto answer = client->Softmax(Put(*region, 0, sample_), into);
    ASSERT_TRUE(answer.ok()) << answer.status();
    std::vector<std::byte> copy(into.output.size());
    ASSERT_TRUE(region->Read(4096, copy).ok());
    EXPECT_EQ(Wrong(sample_, Tensor(answer->dtype(), answer->shape(), copy, nullptr)), "");
    EXPECT_EQ(region->Read(12000, copy).message(), "offset: 12000 and 1024 bytes, must lie within the region's 12288");
  }
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 0; }, kSoon));
  shared_.behavior().device = 7;
  const auto elsewhere = client->AllocateRegion(10000, Memory::kDevice);
  EXPECT_EQ(elsewhere.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(elsewhere.status().message(), HasSubstr("none of the 2 that this process may use"));
}

TEST_F(RegionsTest, RefusalsHaveTheServersWords) {
  const auto client = Connect();
  shared_.behavior().refuse_code = static_cast<int>(absl::StatusCode::kResourceExhausted);
  auto region = client->AllocateRegion(4096);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(region.status().message(), shared_.path() + ": not now");
  shared_.behavior().refuse_code = 0;
  EXPECT_TRUE(client->AllocateRegion(4096).ok());
  EXPECT_EQ(shared_.connections(), 1);
  EXPECT_EQ(client->AllocateRegion(0).status().message(), "bytes: 0, must be above 0");
}

TEST_F(RegionsTest, AUserThatIsNotAllowedIsToldSo) {
  shared_.behavior().not_your_user = true;
  const auto region = Connect()->AllocateRegion(4096);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(region.status().message(), HasSubstr("not this user"));
}

TEST_F(RegionsTest, RepliesThatCannotBeTrustedAreRefused) {
  const auto client = Connect();
  shared_.behavior().short_files = true;
  EXPECT_EQ(client->AllocateRegion(10000).status().message(), "a region of 12288 bytes came with 4096");
  shared_.behavior().short_files = false;
  shared_.behavior().rubbish = true;
  EXPECT_EQ(client->AllocateRegion(10000).status().code(), absl::StatusCode::kInternal);
  shared_.behavior().rubbish = false;
  EXPECT_TRUE(client->AllocateRegion(10000).ok());  // on a new connection
  EXPECT_EQ(shared_.connections(), 2);
}

TEST_F(RegionsTest, AServerThatDoesNotReplyIsNotAwaitedForEver) {
  const auto client = *Client::Create({.target = server_.address(), .deadline = std::chrono::milliseconds(300)});
  shared_.behavior().silent = true;
  const auto region = client->AllocateRegion(10000);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(region.status().message(), HasSubstr("no reply in time"));
}

TEST(RegionsWithout, TheReasonIsSaid) {
  FakeServer plain;
  const auto client = *Client::Create({.target = plain.address()});
  EXPECT_EQ(client->AllocateRegion(1).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(client->AllocateRegion(1).status().message(), HasSubstr("shares no memory (--regions-socket)"));
  const auto several = *Client::Create({.target = "127.0.0.1:1,127.0.0.1:2"});
  EXPECT_THAT(several->AllocateRegion(1).status().message(), HasSubstr("regions need a target that is one server"));
  const auto away = *Client::Create({.target = "10.1.2.3:1"});
  EXPECT_EQ(away->AllocateRegion(1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(away->AllocateRegion(1).status().message(), HasSubstr("this machine"));
  const auto named = *Client::Create({.target = "10.1.2.3:1", .regions_socket = "/no/such/socket"});
  EXPECT_THAT(named->AllocateRegion(1).status().message(), HasSubstr("/no/such/socket: cannot connect"));
}

TEST(RegionsOutputs, HaveExactlyTheAnswersSize) {
  const auto client = *Client::Create({});
  const Sample sample = MakeSample(DataType::kFloat32, {2, 3}, 1);
  std::vector<std::byte> memory(23);
  SoftmaxOptions into;
  into.output = memory;
  EXPECT_EQ(client->Softmax(sample.view(), into).status().message(), "output: 23 bytes, but the answer has 24");
  into.output = {};
  into.summary = {.top_k = 1, .output = memory};
  EXPECT_EQ(SummaryBytes(sample.view(), into), 16u);  // two values, two indices
  alignas(8) std::byte parts[24];
  into.summary.output = parts;
  EXPECT_EQ(client->Softmax(sample.view(), into).status().message(), "summary.output: 24 bytes, but the answer has 16");
  into.summary.output = std::span(parts).subspan(1, 16);
  EXPECT_EQ(client->Softmax(sample.view(), into).status().message(),
            "summary.output: its address must be a multiple of 8");
  into.summary.output = {};
  into.output = memory;
  EXPECT_THAT(client->Softmax(sample.view(), into).status().message(), HasSubstr("without full asks for no tensor"));
}

TEST(RegionPackets, AreThoseOfTheContract) {
  softmax::v1::RegionRequest request;
  ASSERT_TRUE(request.ParseFromString(AllocatePacket(Memory::kDevice, 1 << 30, 3)));
  EXPECT_EQ(request.allocate().memory(), softmax::v1::REGION_MEMORY_DEVICE);
  EXPECT_EQ(request.allocate().bytes(), 1u << 30);
  EXPECT_EQ(request.allocate().device(), 3u);
  ASSERT_TRUE(request.ParseFromString(AllocatePacket(Memory::kHost, 1, std::nullopt)));
  EXPECT_FALSE(request.allocate().has_device());
  RegionToken token;
  token.fill(7);
  ASSERT_TRUE(request.ParseFromString(FreePacket(token)));
  EXPECT_EQ(request.free().token(), std::string(16, 7));

  softmax::v1::RegionReply reply;
  reply.mutable_region()->set_token(std::string(16, 9));
  reply.mutable_region()->set_bytes(4096);
  reply.mutable_region()->set_memory(softmax::v1::REGION_MEMORY_DEVICE);
  reply.mutable_region()->set_device(2);
  EXPECT_EQ(ReadReply(reply.SerializeAsString(), true).status().code(), absl::StatusCode::kInternal);  // no UUID
  reply.mutable_region()->set_device_uuid(std::string(16, 5));
  const auto region = ReadReply(reply.SerializeAsString(), true);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(region->token[15], 9);
  EXPECT_EQ(region->bytes, 4096u);
  EXPECT_EQ(region->memory, Memory::kDevice);
  EXPECT_EQ(region->device, 2u);
  EXPECT_EQ(region->device_uuid[0], 5);
}

}  // namespace
}  // namespace softmax::client
