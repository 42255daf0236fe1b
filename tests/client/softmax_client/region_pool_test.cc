#include "client/softmax_client/region_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "client/softmax_client/softmax_client.h"
#include "tests/client/support/every_way.h"
#include "tests/client/support/fake_regions.h"
#include "tests/client/support/fake_server.h"
#include "tests/client/support/sample.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"

namespace softmax::client {
namespace {

constexpr std::chrono::seconds kPoolPatience(60);

class RegionPoolTest : public ::testing::Test {
 protected:
  softmax::testing::TempFolder folder_;
  FakeRegions shared_{folder_.path("regions.sock")};
};

TEST_F(RegionPoolTest, MakesWhatWasMissedAndNoMoreThanItMayHave) {
  Regions regions([this] { return shared_.path(); }, kPoolPatience);
  const auto pool = std::make_shared<RegionPool>(regions, 256 << 10);
  pool->Start();
  EXPECT_EQ(pool->Take(100 << 10), nullptr);  // nobody waits for it
  std::shared_ptr<PooledRegion> first;
  EXPECT_TRUE(softmax::testing::Eventually([&] { return (first = pool->Take(100 << 10)) != nullptr; }, kPoolPatience));
  EXPECT_EQ(first->memory()->size(), 128u << 10);
  std::shared_ptr<PooledRegion> second;
  EXPECT_TRUE(softmax::testing::Eventually([&] { return (second = pool->Take(100 << 10)) != nullptr; }, kPoolPatience));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pool->Take(1), nullptr);  // full
  EXPECT_EQ(pool->Take(1 << 20), nullptr);                          // never has room for that
  // One that is idle makes room for another size.
  first.reset();
  EXPECT_TRUE(softmax::testing::Eventually([&] { return (first = pool->Take(1)) != nullptr; }, kPoolPatience));
  EXPECT_EQ(shared_.allocations(), 3);
  second->Spoil();
  second.reset();
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 1; }, kPoolPatience));
  pool->Close();
  first.reset();
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 0; }, kPoolPatience));
}

TEST_F(RegionPoolTest, GivesBackWhatIsNotUsed) {
  Regions regions([this] { return shared_.path(); }, kPoolPatience);
  const auto pool = std::make_shared<RegionPool>(regions, 256 << 10, std::chrono::milliseconds(20));
  pool->Start();
  pool->Take(1);
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.allocations() == 1; }, kPoolPatience));
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 0; }, kPoolPatience));
  pool->Close();
}

// The automatic mode, every way to call.
class AutomaticTest : public ::testing::TestWithParam<Way> {
 protected:
  AutomaticTest() { server_.Share(shared_); }

  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    options.target = server_.address();
    options.deadline = kPoolPatience;
    options.regions = RegionUse::kAuto;
    return *Client::Create(options);
  }

  absl::StatusOr<Tensor> Ask(Client& client, const Sample& sample) { return CallBy(GetParam(), client, sample); }

  void ExpectRight(Client& client, const Sample& sample) {
    const auto answer = Ask(client, sample);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(Wrong(sample, *answer), "");
  }

  // Whether a request comes to go through a region; all of them are answered.
  bool ComesToPlace(Client& client) {
    const int before = server_.placed();
    return softmax::testing::Eventually(
        [&] {
          ExpectRight(client, large_);
          return server_.placed() > before;
        },
        kPoolPatience);
  }

  softmax::testing::TempFolder folder_;
  FakeRegions shared_{folder_.path("regions.sock")};
  FakeServer server_;
  const Sample large_ = MakeSample(DataType::kFloat32, {4, 4096}, 3);  // 64 KiB
  const Sample small_ = MakeSample(DataType::kFloat32, {4, 4095}, 3);
};

TEST_P(AutomaticTest, LargeTensorsDoNotTravelAndSmallOnesDo) {
  const auto client = Connect();
  EXPECT_TRUE(ComesToPlace(*client));
  const int placed = server_.placed();
  ExpectRight(*client, large_);
  EXPECT_EQ(server_.placed(), placed + 1);  // the same region again
  ExpectRight(*client, small_);
  EXPECT_EQ(server_.placed(), placed + 1);
}

TEST_P(AutomaticTest, WithoutASocketRoomOrPermissionTheyTravel) {
  shared_.behavior().refuse_code = static_cast<int>(absl::StatusCode::kResourceExhausted);
  ExpectRight(*Connect(), large_);
  shared_.behavior().not_your_user = true;
  ExpectRight(*Connect(), large_);
  ExpectRight(*Connect({.regions_socket = folder_.path("no.sock")}), large_);
  FakeServer plain;
  const auto client = *Client::Create({.target = plain.address(), .regions = RegionUse::kAuto});
  for (int i = 0; i < 20; ++i) ExpectRight(*client, large_);
  EXPECT_EQ(plain.requests(), 20);
}

TEST_P(AutomaticTest, WhenTheServerHasForgottenThemNoCallFails) {
  const auto client = Connect();
  ASSERT_TRUE(ComesToPlace(*client));
  const int placed = server_.placed();
  shared_.EndAll();
  ExpectRight(*client, large_);
  EXPECT_EQ(server_.placed(), placed + 1);  // it was tried, and then sent
  EXPECT_EQ(client->Stats().retries, 0u);
  EXPECT_TRUE(ComesToPlace(*client));
  EXPECT_EQ(shared_.connections(), 2);
}

// As behind a forwarded port: the socket at that path is another server's.
TEST_P(AutomaticTest, AnotherServersRegionsAreNotInsistedOn) {
  const FakeRegions other(folder_.path("other.sock"));
  const auto client = Connect({.regions_socket = other.path()});
  ASSERT_TRUE(ComesToPlace(*client));
  const int placed = server_.placed();
  for (int i = 0; i < 5; ++i) ExpectRight(*client, large_);
  EXPECT_LE(server_.placed(), placed + 1);  // again after a second at the earliest
}

// The server may still write there.
TEST_P(AutomaticTest, ARegionOfALostCallIsNobodyElses) {
  if (GetParam() == Way::kStream) GTEST_SKIP() << "a request that fails there is answered";
  const auto client = Connect({.retry = {.max_attempts = 1}});
  ASSERT_TRUE(ComesToPlace(*client));
  const int allocations = shared_.allocations();
  server_.behavior().fail_next = 1;
  EXPECT_EQ(Ask(*client, large_).status().code(), absl::StatusCode::kUnavailable);
  const int placed = server_.placed();
  ExpectRight(*client, large_);
  EXPECT_EQ(server_.placed(), placed);
  EXPECT_TRUE(ComesToPlace(*client));
  EXPECT_EQ(shared_.allocations(), allocations + 1);
  EXPECT_TRUE(softmax::testing::Eventually([&] { return shared_.regions() == 1; }, kPoolPatience));
}

TEST_P(AutomaticTest, AnAnswerOutlivesItsClient) {
  auto client = Connect();
  ASSERT_TRUE(ComesToPlace(*client));
  const auto answer = Ask(*client, large_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  client.reset();
  EXPECT_EQ(Wrong(large_, *answer), "");
}

INSTANTIATE_TEST_SUITE_P(Ways, AutomaticTest,
                         ::testing::Values(Way::kSync, Way::kInto, Way::kAsync, Way::kBatch, Way::kStream),
                         [](const auto& info) { return kWayNames[static_cast<int>(info.param)]; });

}  // namespace
}  // namespace softmax::client
