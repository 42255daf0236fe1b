// The socket of regions as a whole server has it: what it tells, its counts, its end.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "client/loadgen/scrape/http_get.h"
#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/service.h"
#include "tests/support/eventually.h"
#include "tests/support/region_client.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRegionMiB = 1 << 20;

class RegionsSocket : public ::testing::Test {
 protected:
  RegionsSocket()
      : service_([this](server::Config& config) {
          config.regions_socket = folder_.path("regions");
          config.regions_bytes = 8 * kRegionMiB;
          config.regions_connection_bytes = 6 * kRegionMiB;
          if (config.backend == server::Backend::kCuda) config.regions_device_bytes = 64 * kRegionMiB;
        }) {}

  bool OnGpu() const { return service_.config().backend == server::Backend::kCuda; }

  TempFolder folder_;
  Service service_;
};

TEST_F(RegionsSocket, GetServerInfoTellsItsPathAndLimits) {
  const auto stub = v1::SoftmaxService::NewStub(service_.NewChannel());
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(stub->GetServerInfo(&context, {}, &info).ok());
  ASSERT_TRUE(info.has_regions());
  EXPECT_EQ(info.regions().socket(), folder_.path("regions"));
  EXPECT_EQ(info.regions().max_bytes(), 8 * kRegionMiB);
  EXPECT_EQ(info.regions().max_bytes_per_connection(), 6 * kRegionMiB);
  EXPECT_EQ(info.regions().max_device_bytes(), service_.config().regions_device_bytes);
  EXPECT_EQ(info.regions().max_device_bytes_per_connection(), service_.config().regions_device_bytes / 2);
  EXPECT_EQ(info.regions().max_tensor_bytes(), OnGpu() ? 32 * kRegionMiB : 6 * kRegionMiB);
}

TEST_F(RegionsSocket, DeviceMemoryIsThereWhereADeviceIs) {
  RegionClient client(folder_.path("regions"));
  const auto answer = client.Allocate(1, v1::REGION_MEMORY_DEVICE);
  ASSERT_TRUE(answer.has_value());
  if (!OnGpu()) {
    EXPECT_EQ(answer->reply.status().code(), grpc::UNIMPLEMENTED);
    return;
  }
  ASSERT_EQ(answer->reply.status().code(), grpc::OK) << answer->reply.DebugString();
  EXPECT_GE(answer->descriptor, 0);
  EXPECT_GE(answer->reply.region().bytes(), 65536u);
  EXPECT_EQ(answer->reply.region().device_uuid().size(), 16u);
  EXPECT_NE(answer->reply.region().device_uuid(), std::string(16, '\0'));
  close(answer->descriptor);
  // All of it, twice: what is freed can be had again.
  for (int i = 0; i < 2; ++i) {
    RegionClient other(folder_.path("regions"));
    const auto most = other.Allocate(32 * kRegionMiB, v1::REGION_MEMORY_DEVICE, 0);
    ASSERT_TRUE(most && most->reply.status().code() == grpc::OK) << most->reply.DebugString();
    close(most->descriptor);
    const auto freed = other.Free(most->reply.region().token());
    EXPECT_TRUE(freed && freed->reply.status().code() == grpc::OK);
  }
}

TEST_F(RegionsSocket, MetricsCountWhatIsGivenOutAndRefused) {
  RegionClient client(folder_.path("regions"));
  const auto answer = client.Allocate(kRegionMiB);
  ASSERT_TRUE(answer && answer->reply.status().code() == 0);
  const auto refused = client.Allocate(7 * kRegionMiB);
  ASSERT_TRUE(refused && refused->reply.status().code() == grpc::INVALID_ARGUMENT);
  const auto location = client::ParseHttpLocation("http://" + service_.server().metrics_address(), "/metrics");
  ASSERT_TRUE(location.ok());
  const std::string page = client::HttpGet(*location, {}).value_or("");
  EXPECT_THAT(page, HasSubstr("softmax_regions{memory=\"host\"} 1"));
  EXPECT_THAT(page, HasSubstr("softmax_region_bytes{memory=\"host\"} 1048576"));
  EXPECT_THAT(page, HasSubstr("softmax_region_connections 1"));
  EXPECT_THAT(page, HasSubstr("softmax_regions_refused_total{reason=\"invalid\"} 1"));
  close(answer->descriptor);
}

TEST_F(RegionsSocket, EndsWithTheDrain) {
  RegionClient client(folder_.path("regions"));
  const auto answer = client.Allocate(kRegionMiB);
  ASSERT_TRUE(answer && answer->reply.status().code() == 0);
  close(answer->descriptor);
  std::thread drain([this] { service_.Drain(); });
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(folder_.path("regions")); }));
  const auto late = client.Allocate(kRegionMiB);
  EXPECT_TRUE(late && late->reply.status().code() == grpc::UNAVAILABLE);
  drain.join();
}

}  // namespace
}  // namespace softmax::testing
