// A device that fails, hangs or is late, memory that is not to be had: what callers see, and how the process ends.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "softmax/v1/softmax.grpc.pb.h"
#include "tests/end_to_end/faulty_service.h"
#include "tests/end_to_end/requests.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The server ends with 70 while callers go on; each call ends with an answer or a status that says what to do.
void ExpectTheEnd(const std::string& fault, const std::string& reason) {
  ServerProcess server(WithFault(fault));
  Callers callers(server.target());
  EXPECT_EQ(server.Wait(30000), 70) << server.Log();
  callers.Stop();
  EXPECT_GT(callers.counts().right, 0);
  EXPECT_GT(callers.counts().internal, 0);
  EXPECT_EQ(callers.counts().wrong, 0);
  EXPECT_THAT(server.Log(), HasSubstr("a device failed: " + reason));
  EXPECT_THAT(server.Log(), HasSubstr("drained"));
}

TEST(Faults, ADeviceThatRefusesALaunchEndsTheProcessWith70) { ExpectTheEnd("error:50", "fault: a launch failed"); }

TEST(Faults, AStickyErrorEndsTheProcessWith70) {
  ExpectTheEnd("sticky:50", "fault: a kernel ran into an illegal address");
}

TEST(Faults, ADeviceThatHangsIsGivenUpAndEndsTheProcessWith70) {
  const auto begin = Clock::now();
  ExpectTheEnd("hang:50", "a device hangs");
  EXPECT_GT(Clock::now() - begin, std::chrono::seconds(1));
}

// Nothing simulated: a kernel reads where there is no memory, and the driver gives up the context.
TEST(Faults, ARealIllegalAddressEndsTheProcessWith70) {
  if (!OnGpu()) GTEST_SKIP() << "a kernel that crashes needs the CUDA backend";
  ExpectTheEnd("cuda:kernel:50", "running the softmax kernel: cudaErrorIllegalAddress");
}

TEST(Faults, ACudaCallThatFailsEndsTheProcessWith70) {
  if (!OnGpu()) GTEST_SKIP() << "CUDA calls need the CUDA backend";
  ExpectTheEnd("cuda:cudaLaunchKernel:50:719", "launching the softmax kernel: cudaErrorLaunchFailure");
  ExpectTheEnd("cuda:cudaSetDevice:60:46", "cudaSetDevice: cudaErrorDevicesUnavailable");
}

TEST(Faults, ACudaCallThatFailsAtStartSaysWhich) {
  if (!OnGpu()) GTEST_SKIP() << "CUDA calls need the CUDA backend";
  for (const char* call : {"cudaGetDeviceCount", "cudaSetDevice", "PrepareSoftmaxKernels", "cudaHostAlloc",
                           "cudaStreamCreateWithFlags", "cudaMalloc", "cudaMemset", "cudaLaunchKernel"}) {
    ServerProcess server(WithFault(std::string("cuda:") + call + ":1:999"), ServerProcess::MayFail());
    EXPECT_THAT(server.Wait(30000), ::testing::AnyOf(1, 3)) << call;
    EXPECT_THAT(server.Log(), AllOf(HasSubstr("cannot start: "), HasSubstr("unknown error"))) << call;
  }
}

TEST(Faults, ALateDeviceIsWaitedFor) {
  ServerProcess server(WithFault("late:50ms"));
  const auto client = *client::Client::Create({.target = server.target()});
  const Question question = MakeQuestion({10, 200}, 1);
  for (int i = 0; i < 10; ++i) {
    const auto begin = Clock::now();
    const auto answer = client->Softmax(question.view(), question.options());
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(JudgeAnswer(question, answer->data()).ok);
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(50));
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(15000), 0);
}

// Stopped for longer than a batch may take, as when a virtual machine is moved, the server has not seen its device
// hang.
TEST(Faults, AStoppedProcessDoesNotTakeItsDeviceForHanging) {
  ServerProcess server(WithFault("late:300ms", {"--device-timeout=2s"}));
  Callers callers(server.target());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(callers.GetRightAnswers(4));  // so that others are under way now
    server.StandStill(std::chrono::seconds(3));
  }
  EXPECT_TRUE(callers.GetRightAnswers(4));
  callers.Stop();
  EXPECT_EQ(callers.counts().internal, 0) << server.Log();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(15000), 0);
}

TEST(Faults, MemoryThatIsNotToBeHadIsNamedWithSizesAndAdvice) {
  const auto advice = AllOf(HasSubstr("cannot start: arena-bytes: cannot "), HasSubstr("MiB) of memory: "),
                            HasSubstr("are available"), HasSubstr("Set a smaller --arena-bytes"));
  ServerProcess faulty(WithFault("alloc:1"), ServerProcess::MayFail());
  EXPECT_EQ(faulty.Wait(20000), 3);
  EXPECT_THAT(faulty.Log(), AllOf(advice, HasSubstr("67108864 bytes (64 MiB)")));
  // More than an address can reach, on any machine.
  ServerProcess real({"--arena-bytes=1024TiB"}, ServerProcess::MayFail());
  EXPECT_EQ(real.Wait(20000), 3) << real.Log();
  EXPECT_THAT(real.Log(), advice);
}

TEST(Faults, EveryAllocationOfAStartMayFail) {
  if (!OnGpu()) GTEST_SKIP() << "the CPU backend has one allocation";
  for (int number = 1; number <= 4; ++number) {
    ServerProcess server(WithFault("alloc:" + std::to_string(number)), ServerProcess::MayFail());
    EXPECT_EQ(server.Wait(30000), 3) << number;
    EXPECT_THAT(server.Log(), AllOf(HasSubstr("cannot start: "), HasSubstr("out of memory"))) << number;
  }
}

grpc::Status Ask(const std::string& target, std::int64_t columns, std::chrono::milliseconds patience) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  v1::SoftmaxResponse answer;
  return v1::SoftmaxService::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()))
      ->Softmax(&context, RequestOfZeros({columns}), &answer);
}

TEST(Faults, WithoutMemoryRequestsWaitAreRefusedOrServedByTheirSize) {
  ServerProcess server(WithFault("slabs:4", {"--max-queued-requests=4"}));
  constexpr std::int64_t kSmall = 1000, kLarge = 100000;  // 4 KB, 400 KB; four slabs are 256 KiB
  EXPECT_TRUE(Ask(server.target(), kSmall, std::chrono::seconds(20)).ok());
  // What finds no room waits until its caller's deadline.
  EXPECT_EQ(Ask(server.target(), kLarge, std::chrono::milliseconds(300)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Ask(server.target(), kSmall, std::chrono::seconds(20)).ok());
  // When the queue is full of such, more are refused, and health still answers.
  std::vector<std::jthread> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back([&] { (void)Ask(server.target(), kLarge, std::chrono::seconds(8)); });
  }
  EXPECT_TRUE(Eventually([&] { return NumberOf(server, "softmax_requests_queued ") == 4; }, std::chrono::seconds(7)));
  const grpc::Status refused = Ask(server.target(), kLarge, std::chrono::seconds(8));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
  EXPECT_EQ(HealthOf(server.target(), "liveness"), "SERVING");
  EXPECT_NE(MetricOf(server.metrics(), R"(softmax_requests_rejected_total{reason="queue_full"} )"), "0");
  waiting.clear();
  grpc::Status small;
  do {
    small = Ask(server.target(), kSmall, std::chrono::seconds(20));
  } while (small.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);  // until the server has seen their deadlines
  EXPECT_TRUE(small.ok()) << small.error_message();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(15000), 0);
}

TEST(Faults, NeedUnsafeTesting) {
  ServerProcess server({"--fault=hang:1"}, ServerProcess::MayFail());
  EXPECT_EQ(server.Wait(5000), 2);
  EXPECT_THAT(server.Log(), HasSubstr("--fault=hang:1"));
  for (const char* bad : {"hang", "hang:0", "late:", "explode:1", "hang:5,late"}) {
    ServerProcess wrong({"--unsafe-testing", std::string("--fault=") + bad}, ServerProcess::MayFail());
    EXPECT_EQ(wrong.Wait(5000), 2);
    EXPECT_THAT(wrong.Log(), HasSubstr(std::string("--fault=") + bad));
  }
}

TEST(Faults, OfCallsThatTheBackendDoesNotMakeAreRefused) {
  ServerProcess server(WithFault("cuda:cudaMalloc:1", {"--backend=cpu"}), ServerProcess::MayFail());
  EXPECT_EQ(server.Wait(5000), 2);
  EXPECT_THAT(server.Log(), HasSubstr("this backend makes no CUDA calls"));
}

}  // namespace
}  // namespace softmax::testing
