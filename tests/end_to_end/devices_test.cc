// Several devices, of which one is lost: the others serve on for a while. One device poses as many, so this needs one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/support/eventually.h"
#include "tests/support/region_client.h"
#include "tests/support/temp_folder.h"

namespace softmax::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

// A server whose second device of so many is lost under load, and what is seen of that.
void LoseOneOf(unsigned count, const std::string& fault, const std::string& reason) {
  const TempFolder folder;
  ServerProcess server(WithFault("devices:" + std::to_string(count) + "," + fault,
                                 {"--threads=2", "--regions-socket=" + folder.path("regions")}));
  EXPECT_EQ(InfoOf(server.target()).devices.size(), count);
  EXPECT_FALSE(InfoOf(server.target()).degraded);
  EXPECT_EQ(MetricOf(server.metrics(), "softmax_degraded "), "0");
  Callers callers(server.target());
  ASSERT_TRUE(Eventually([&] { return InfoOf(server.target()).degraded; })) << server.Log();
  // Only what ran on the device when it was lost fails: at most the one request that each of four callers has in
  // flight. Each thread gives up its own batch, so one may do so after others have had many answers.
  int failed = 0;
  EXPECT_TRUE(Eventually([&] {
    failed = callers.counts().internal;
    return callers.GetRightAnswers(200) && failed > 0 && callers.counts().internal == failed;
  })) << server.Log();
  callers.Stop();
  EXPECT_LE(callers.counts().internal, 4);
  EXPECT_EQ(callers.counts().unavailable, 0);
  EXPECT_EQ(callers.counts().wrong, 0);

  EXPECT_THAT(InfoOf(server.target()).lost_devices,
              ::testing::ElementsAre(AllOf(StartsWith("1: "), HasSubstr(reason))));
  EXPECT_EQ(MetricOf(server.metrics(), "softmax_degraded "), "1");
  for (unsigned device = 0; device < count; ++device) {
    const std::string series = "softmax_device_serving{device=\"" + std::to_string(device) + "\"";
    EXPECT_THAT(MetricOf(server.metrics(), series), HasSubstr(device == 1 ? "} 0" : "} 1"));
  }
  EXPECT_EQ(RegionClient(folder.path("regions")).Allocate(1)->reply.status().code(), grpc::UNAVAILABLE);
  EXPECT_EQ(HealthOf(server.target(), "readiness"), "SERVING");
  EXPECT_EQ(HealthOf(server.target(), "liveness"), "SERVING");
  EXPECT_TRUE(server.LogComesToHave("is lost, " + std::to_string(count - 1) + " of " + std::to_string(count) +
                                    " are left: " + reason));
  EXPECT_THAT(server.Log(), HasSubstr("device 1 ("));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(20000), 0) << server.Log();
}

TEST(Devices, OneOfEightThatFailsLeavesTheOthersServing) {
  LoseOneOf(8, "sticky:50@1", "fault: a kernel ran into an illegal address");
}

TEST(Devices, OneThatHangsLeavesTheOtherServing) { LoseOneOf(2, "hang:50@1", "a device hangs"); }

TEST(Devices, ADegradedServerLeavesInTime) {
  ServerProcess server(WithFault("devices:2,sticky:50@1", {"--threads=2", "--degraded-limit=1500ms"}));
  Callers callers(server.target());
  ASSERT_TRUE(Eventually([&] { return InfoOf(server.target()).degraded; })) << server.Log();
  const auto begin = Clock::now();
  EXPECT_EQ(server.Wait(20000), 70) << server.Log();
  EXPECT_GT(Clock::now() - begin, std::chrono::milliseconds(1000));  // it was seen a little later than it began
  callers.Stop();
  EXPECT_EQ(callers.counts().wrong, 0);
  EXPECT_THAT(server.Log(), AllOf(HasSubstr("degraded-limit is over"), HasSubstr("drained")));
}

// Whatever broke the first device may have broken the process: the test of the other says so before a request does.
TEST(Devices, WithoutOneThatPassesItsTestTheProcessEndsWith70) {
  ServerProcess server(WithFault("devices:2,hang:60", {"--threads=2"}));
  Callers callers(server.target());
  EXPECT_EQ(server.Wait(30000), 70) << server.Log();
  callers.Stop();
  EXPECT_GT(callers.counts().right, 0);
  EXPECT_EQ(callers.counts().wrong, 0);
  EXPECT_THAT(server.Log(), AllOf(HasSubstr("a device hangs"), HasSubstr("0 of 2 are left")));
}

TEST(Devices, OneContextThatIsBrokenIsBrokenForAllThatPose) {
  if (!OnGpu()) GTEST_SKIP() << "a kernel that crashes needs the CUDA backend";
  ServerProcess server(WithFault("devices:2,cuda:kernel:50", {"--threads=2"}));
  Callers callers(server.target());
  EXPECT_EQ(server.Wait(30000), 70) << server.Log();
  callers.Stop();
  EXPECT_EQ(callers.counts().wrong, 0);
  // The other is lost by its test, or by a batch of its own that ran meanwhile, perhaps before the first loss is told.
  EXPECT_THAT(server.Log(), AllOf(HasSubstr("device 0 ("), HasSubstr("device 1 ("), HasSubstr("0 of 2 are left")));
}

TEST(Devices, TheStartSaysWhichOnesThereAre) {
  ServerProcess server(WithFault("devices:3", {"--threads=2"}));
  EXPECT_EQ(InfoOf(server.target()).devices.size(), 3u);
  Callers callers(server.target());
  EXPECT_TRUE(callers.GetRightAnswers(200));
  callers.Stop();
  EXPECT_EQ(callers.counts().internal + callers.counts().unavailable + callers.counts().wrong, 0);
  EXPECT_TRUE(
      Eventually([&] { return MetricOf(server.metrics(), "softmax_device_in_flight_bytes{device=\"2\"} ") == "0"; }));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(20000), 0);
}

// A device that takes long: the thread that waits for its batches sleeps, and is there when something comes.
TEST(Devices, AThreadSleepsWhileALargeBatchRuns) {
  ServerProcess server(WithFault("late:200ms", {"--threads=1"}));
  const double before = std::stod(MetricOf(server.metrics(), "process_cpu_seconds_total "));
  const auto begin = Clock::now();
  const auto stub = v1::SoftmaxService::NewStub(OwnChannel(server.target()));
  for (int i = 0; i < 8; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::SoftmaxResponse response;
    ASSERT_TRUE(stub->Softmax(&context, RequestOfZeros({4, 1 << 16}), &response).ok());
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  EXPECT_GE(seconds, 8 * 0.2);
  EXPECT_LT(std::stod(MetricOf(server.metrics(), "process_cpu_seconds_total ")) - before, 0.5 * seconds);
}

}  // namespace
}  // namespace softmax::testing
