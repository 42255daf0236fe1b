// The CUDA backend's code on pretended devices (fake_cuda.h): several of them, one that fails, one that hangs, and
// every call that may be refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/base/receive_pool.h"
#include "server/execution/cuda/cuda_executor.h"
#include "server/execution/device_group.h"
#include "tests/server/execution/fake_cuda.h"
#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fake = softmax::testing::fake_cuda;

constexpr std::uint64_t kArenaBytes = 1 << 20;
constexpr std::uint64_t kSlabBytes = 4096;
constexpr std::size_t kReceiveBytes = 4 * ReceivePool::kLargest;

struct Request {
  testing::TestRequest request{1, 8, 1};
  Batch batch;
};

class CudaLanesTest : public ::testing::Test {
 protected:
  absl::Status Make(int devices, const Faults& faults = {}, DeviceGroup::Options options = {}) {
    fake::Reset(devices);
    plan_ = std::make_unique<FaultPlan>(faults);
    ExecutorOptions executor;
    executor.arena_bytes = kArenaBytes;
    executor.max_input_bytes = max_input_bytes_;
    executor.receive_bytes = receive_bytes_;
    executor.faults = faults.any() ? plan_.get() : nullptr;
    executor.devices = chosen_;
    auto created = CreateCudaExecutor(executor);
    if (!created.ok()) return created.status();
    executor_ = *std::move(created);
    arena_ = std::make_unique<Arena>(executor_->memory(), kArenaBytes, kSlabBytes);
    options.arena_bytes = kArenaBytes;
    group_ = std::make_unique<DeviceGroup>(*executor_, options, executor.faults);
    auto lane = group_->CreateLane([] {});
    if (!lane.ok()) return lane.status();
    lane_ = *std::move(lane);
    return group_->Start();
  }
  void TearDown() override {
    lane_.reset();
    group_.reset();
    executor_.reset();
    if (!hung_) {
      EXPECT_EQ(fake::Allocations(), 0u);
    }
  }
  // The device hangs: nothing is freed any more, as the server does it.
  void Hang(int device) {
    fake::Hang(device);
    hung_ = true;
  }
  void KeepAll() {
    lane_.reset();
    group_.reset();
    static auto* const kept = new std::vector<std::unique_ptr<Executor>>;
    kept->push_back(std::move(executor_));
  }

  std::unique_ptr<Request> Launch() {
    auto request = std::make_unique<Request>();
    const TimePoint now = SteadyClock::now();
    const TensorSpec& spec = request->request.spec();
    request->batch.Open(spec.input_type, spec.output_type, SpanRef(arena_.get(), arena_->TryReserve(kSlabBytes)),
                        Batch::NeedOf(spec), now);
    request->batch.Add(&request->request, now);
    request->batch.Close(CloseReason::kIdle);
    request->batch.set_launched(now);
    lane_->Launch(&request->batch);
    return request;
  }
  Batch* WaitForOne() {
    Batch* back = nullptr;
    while ((back = lane_->Poll()) == nullptr) {
      group_->Sweep(SteadyClock::now());
      std::this_thread::yield();
    }
    return back;
  }
  // Launches a batch that has its requests, and completes it when it is back.
  void RunFilled(Batch* batch) {
    batch->Close(CloseReason::kIdle);
    batch->set_launched(SteadyClock::now());
    lane_->Launch(batch);
    ASSERT_EQ(WaitForOne(), batch);
    ASSERT_TRUE(batch->status.ok()) << batch->status;
    batch->Complete(absl::OkStatus(), SteadyClock::now());
  }
  absl::Status Run() {
    const auto request = Launch();
    Batch* const back = WaitForOne();
    EXPECT_EQ(back, &request->batch);
    const absl::Status status = back->status;
    back->Complete(status, SteadyClock::now());
    if (status.ok()) {
      EXPECT_FLOAT_EQ(request->request.floats()[0], 0.125f);
    }
    return status;
  }

  std::uint64_t max_input_bytes_ = 64u << 20;
  std::size_t receive_bytes_ = 0;
  std::vector<int> chosen_;  // empty: all
  std::unique_ptr<FaultPlan> plan_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<DeviceGroup> group_;
  std::unique_ptr<Lane> lane_;
  bool hung_ = false;
};

TEST_F(CudaLanesTest, SummariesTakeALaunchAndWholeAnswersBesideThemAnother) {
  ASSERT_TRUE(Make(1).ok());
  for (const bool beside_a_whole_answer : {false, true}) {
    const std::size_t before = fake::Launches(0);
    testing::TestRequest small{3, 8, 1};
    testing::TestRequest whole{2, 8, 1};
    SummarySpec& summary = small.mutable_spec().summary;
    summary.top_k = 2;
    summary.log_sum_exp = true;
    summary.partial = true;
    Batch batch;
    const TimePoint now = SteadyClock::now();
    batch.Open(kernels::DataType::kFloat32, kernels::DataType::kFloat32,
               SpanRef(arena_.get(), arena_->TryReserve(kSlabBytes)), Batch::Need{kSlabBytes, 0}, now);
    batch.Add(&small, now);
    if (beside_a_whole_answer) batch.Add(&whole, now);
    RunFilled(&batch);
    EXPECT_EQ(fake::Launches(0), before + (beside_a_whole_answer ? 2u : 1u));
    const SummaryLayout layout = small.spec().summary_layout();
    const auto* const values = reinterpret_cast<const float*>(small.summary.data() + layout.offset[0]);
    const auto* const indices = reinterpret_cast<const std::int32_t*>(small.summary.data() + layout.offset[1]);
    for (int i = 0; i < 6; ++i) {
      EXPECT_FLOAT_EQ(values[i], 0.125f);
      EXPECT_EQ(indices[i], i % 2);  // equal inputs, by index
    }
    if (beside_a_whole_answer) {
      EXPECT_FLOAT_EQ(whole.floats()[15], 0.125f);
    }
  }
}

// Rows that miss the boundaries are slow, or, if they miss those of their elements, refused. Other memory of a lane is
// as large as a configuration makes it.
TEST_F(CudaLanesTest, GatheredInputsLieOnBoundaries) {
  constexpr int kCols = 2048;
  for (const std::uint64_t max_input : {64u << 20, 16u << 20, 1000003u}) {
    max_input_bytes_ = max_input;
    receive_bytes_ = kReceiveBytes;
    ASSERT_TRUE(Make(1).ok());
    const std::span<std::byte> received = executor_->receive_memory();
    ASSERT_EQ(received.size(), kReceiveBytes);
    ASSERT_TRUE(ReceivePool::Install(received.data(), received.size()));
    auto* const floats = reinterpret_cast<float*>(received.data());
    std::fill_n(floats, kCols, 0.0f);
    floats[kCols - 1] = 100;  // the others have no share beside it
    testing::ReceivedRequest request(received.first(kCols * sizeof(float)), kCols);
    Batch batch;
    const TimePoint now = SteadyClock::now();
    batch.Open(kernels::DataType::kFloat32, kernels::DataType::kFloat32,
               SpanRef(arena_.get(), arena_->TryReserve(8 * kSlabBytes)), Batch::Need{4 * kSlabBytes, 4 * kSlabBytes},
               now);
    batch.Add(&request, now, true);
    ASSERT_EQ(batch.pieces().size(), 1u);
    RunFilled(&batch);
    EXPECT_FLOAT_EQ(request.floats()[kCols - 1], 1.0f);
    EXPECT_TRUE(ReceivePool::Remove());
    TearDown();
  }
}

TEST_F(CudaLanesTest, BatchesGoToAllDevices) {
  ASSERT_TRUE(Make(4).ok());
  EXPECT_EQ(executor_->devices().size(), 4u);
  std::vector<std::size_t> tests(4);
  for (int device = 0; device < 4; ++device) {
    tests[static_cast<std::size_t>(device)] = fake::Launches(device);
    EXPECT_EQ(fake::Launches(device), 2u);  // the thread's lane and the one for tests were tested
    fake::HoldBack(device);
  }
  std::vector<std::unique_ptr<Request>> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(Launch());
  for (int device = 0; device < 4; ++device) {
    EXPECT_EQ(fake::Launches(device), tests[static_cast<std::size_t>(device)] + 2);
    fake::Finish(device);
  }
  for (int i = 0; i < 8; ++i) {
    Batch* const back = WaitForOne();
    EXPECT_TRUE(back->status.ok());
    back->Complete(back->status, SteadyClock::now());
  }
  for (const auto& request : requests) EXPECT_FLOAT_EQ(request->request.floats()[7], 0.125f);
  EXPECT_EQ(arena_->slabs_used(), 0u);
}

// Alone it has the link for itself.
TEST_F(CudaLanesTest, ABatchBesideAnotherSharesTheLink) {
  ASSERT_TRUE(Make(1).ok());
  fake::HoldBack(0);
  const std::size_t before = fake::HostLaunches(0);
  const auto first = Launch();
  EXPECT_EQ(fake::HostLaunches(0), before + 1);
  EXPECT_EQ(fake::SharedLaunches(0), 0u);
  const auto second = Launch();
  EXPECT_EQ(fake::HostLaunches(0), before + 1);
  EXPECT_EQ(fake::SharedLaunches(0), 1u);
  fake::Finish(0);
  for (int i = 0; i < 2; ++i) {
    Batch* const back = WaitForOne();
    back->Complete(back->status, SteadyClock::now());
  }
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(fake::HostLaunches(0), before + 2);
  EXPECT_EQ(fake::SharedLaunches(0), 1u);
}

TEST_F(CudaLanesTest, RegionsAreReadWhereTheyLie) {
  ASSERT_TRUE(Make(2).ok());
  for (const int device : {Region::kHost, 0, 1, 1}) {
    const auto region = testing::MakeRegion(64, 1, device);
    const std::size_t launches[] = {fake::Launches(0), fake::Launches(1)};
    const std::size_t over_the_link = fake::HostLaunches(0) + fake::HostLaunches(1);
    testing::TestRequest whole{1, 8, 0}, best{1, 8, 0};
    whole.PutInto(region, {.input = 0, .output = 64});
    best.PutInto(region, {.input = 0, .summary = 128});
    best.mutable_spec().summary.top_k = 1;
    best.mutable_spec().summary.partial = true;
    Batch batch;
    batch.Open(kernels::DataType::kFloat32, kernels::DataType::kFloat32, SpanRef(), Batch::Need{}, SteadyClock::now());
    batch.Add(&best, SteadyClock::now());
    batch.Add(&whole, SteadyClock::now());
    RunFilled(&batch);
    const auto* const floats = reinterpret_cast<const float*>(region->memory());
    EXPECT_FLOAT_EQ(floats[16], 0.125f);
    EXPECT_FLOAT_EQ(floats[23], 0.125f);
    EXPECT_FLOAT_EQ(floats[32], 0.125f);
    // The summary and the whole answer, on the memory's own device and as what lies there.
    if (device != Region::kHost) {
      EXPECT_EQ(fake::Launches(device), launches[device] + 2);
      EXPECT_EQ(fake::Launches(1 - device), launches[1 - device]);
    }
    EXPECT_EQ(fake::HostLaunches(0) + fake::HostLaunches(1), over_the_link + (device == Region::kHost ? 1 : 0));
  }
  EXPECT_EQ(arena_->slabs_used(), 0u);
}

TEST_F(CudaLanesTest, AKernelThatCrashesTakesItsDeviceAndNoOther) {
  Faults faults;
  faults.calls = {{"kernel", 5 + 4, 1}};  // four self-tests come first
  ASSERT_TRUE(Make(2, faults).ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Run().ok());
  const absl::Status status = Run();
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("running the softmax kernel: cudaErrorIllegalAddress"));
  // The error of the lost device does not come up at the next one's launch on this thread.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(group_->devices().degraded());
  EXPECT_TRUE(group_->health().ok());
}

TEST_F(CudaLanesTest, ADeviceThatHangsIsNeverWaitedFor) {
  ASSERT_TRUE(Make(2, {}, {.batch_timeout = std::chrono::milliseconds(300)}).ok());
  EXPECT_TRUE(Run().ok());
  Hang(0);
  EXPECT_TRUE(absl::IsInternal(Run()));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(group_->devices().hangs(0));
  KeepAll();
}

TEST_F(CudaLanesTest, EveryCallMayFailUnderLoad) {
  const std::pair<const char*, const char*> calls[] = {{"cudaSetDevice", "cudaSetDevice: "},
                                                       {"cudaLaunchKernel", "launching the softmax kernel: "}};
  for (const auto& [call, said] : calls) {
    Faults faults;
    faults.calls = {{call, 20, 46}};
    ASSERT_TRUE(Make(2, faults).ok());
    absl::Status failed;
    for (int i = 0; i < 30; ++i) failed.Update(Run());
    EXPECT_TRUE(absl::IsInternal(failed)) << call;
    EXPECT_THAT(std::string(failed.message()), HasSubstr(said));
    EXPECT_TRUE(group_->devices().degraded()) << call;
    EXPECT_TRUE(Run().ok()) << call;
    TearDown();
  }
}

TEST_F(CudaLanesTest, EveryCallMayFailAtStart) {
  for (const char* call : {"cudaGetDeviceCount", "cudaSetDevice", "PrepareSoftmaxKernels", "cudaHostAlloc",
                           "cudaStreamCreateWithFlags", "cudaMalloc", "cudaMemset", "cudaLaunchKernel"}) {
    for (const std::uint64_t number : {1, 2}) {
      Faults faults;
      faults.calls = {{call, number, 999}};
      const absl::Status status = Make(2, faults);
      const bool once = std::string(call) == "cudaGetDeviceCount" && number == 2;
      EXPECT_EQ(status.ok(), once) << call << " " << number << ": " << status;
      if (!once) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("some error")) << call;
      }
      TearDown();  // nothing stays behind
    }
  }
}

TEST_F(CudaLanesTest, EveryAllocationMayBeRefused) {
  std::uint64_t number = 1;
  for (absl::Status status; !status.ok() || number == 1; ++number) {
    Faults faults;
    faults.allocation = number;
    status = Make(2, faults);
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("bytes"), HasSubstr("out of memory")));
    }
    TearDown();
    ASSERT_LT(number, 100u);
    if (status.ok()) break;
  }
  EXPECT_EQ(number, 1u + 1 + 2 * 4);  // the arena, then two for each of four lanes
}

TEST_F(CudaLanesTest, OneDevicePosesAsMany) {
  Faults faults;
  faults.devices = 3;
  ASSERT_TRUE(Make(1, faults).ok());
  EXPECT_EQ(executor_->devices().size(), 3u);
  EXPECT_TRUE(Run().ok());
}

// Each look at the stream is a call of the driver.
TEST_F(CudaLanesTest, AStreamIsAskedForErrorsOnceInManyPolls) {
  Faults faults;
  faults.calls = {{"cudaStreamQuery", 1, 700}};
  ASSERT_TRUE(Make(1, faults).ok());
  fake::HoldBack(0);
  const auto request = Launch();
  int polls = 1;
  while (lane_->Poll() == nullptr) ++polls;
  EXPECT_EQ(polls, 4096);
  EXPECT_TRUE(absl::IsInternal(request->batch.status));
  request->batch.Complete(request->batch.status, SteadyClock::now());
  fake::Finish(0);
}

TEST_F(CudaLanesTest, OnlyTheChosenDevicesRun) {
  chosen_ = {2, 0};
  ASSERT_TRUE(Make(3).ok());
  EXPECT_THAT(executor_->devices(), ::testing::ElementsAre(HasSubstr("GPU 2"), HasSubstr("GPU 0")));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Run().ok());
  EXPECT_EQ(fake::Launches(1), 0u);
  for (const int missing : {-1, 3}) {
    TearDown();
    chosen_ = {0, missing};
    EXPECT_THAT(std::string(Make(3).message()), HasSubstr("devices: " + std::to_string(missing) + " is not there"));
  }
}

TEST_F(CudaLanesTest, NoDeviceIsNoBackend) { EXPECT_TRUE(absl::IsUnavailable(Make(0))); }

}  // namespace
}  // namespace softmax::server
