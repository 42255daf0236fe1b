// The CPU backend's lane: small batches run in Launch, larger ones in pieces on its workers.
#include "server/execution/cpu/cpu_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "server/base/receive_pool.h"
#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

constexpr std::int64_t kCols = 8;

// Rows of equal values in a region, so that the arena bounds nothing: their softmax, or their best element.
class LargeRequest final : public testing::TestRequest {
 public:
  LargeRequest(std::int64_t rows, bool best)
      : TestRequest(rows, kCols), region_(testing::MakeRegion(static_cast<std::size_t>(3 * rows * kCols), 1)) {
    const std::uint64_t behind = spec().input_bytes();
    mutable_spec().summary.partial = best;
    mutable_spec().summary.top_k = best ? 1 : 0;
    PutInto(region_, best ? Offsets{0, {}, behind} : Offsets{0, behind, {}});
  }
  void ExpectAnswers() const {
    const std::int64_t count = spec().has_tensor() ? spec().rows() * kCols : spec().rows();
    const auto* const answers = reinterpret_cast<const float*>(region_->memory()) + spec().rows() * kCols;
    EXPECT_EQ(std::count(answers, answers + count, 0.125f), count);
  }

 private:
  const std::shared_ptr<const Region> region_;
};

class CpuLaneTest : public testing::LaneFixture {
 protected:
  void Launch(Batch* batch, std::initializer_list<PendingRequest*> requests) {
    batch->Open(kernels::DataType::kFloat32, kernels::DataType::kFloat32, SpanRef(), Batch::Need{}, TimePoint());
    for (PendingRequest* request : requests) batch->Add(request, TimePoint());
    batch->Close(CloseReason::kIdle);
    batch->status = absl::UnavailableError("of another lane, which did not run it");
    lane_.Launch(batch);
  }
  // What was launched comes back, each batch once and well.
  void ExpectBack(int batches) {
    while (batches > 0) {
      Batch* const back = lane_.Poll();
      if (back == nullptr) continue;
      EXPECT_TRUE(Complete(back).ok());
      --batches;
    }
    EXPECT_EQ(lane_.Poll(), nullptr);
  }

  CpuPool pool_{2};
  std::atomic<int> wakes_{0};
  CpuLane lane_{pool_, [this] { ++wakes_; }, /*gathers=*/true};
};

TEST_F(CpuLaneTest, UpToItsLimitABatchRunsAtOnceAndElseOnTheWorkers) {
  constexpr std::int64_t kMostRows = CpuLane::kInlineBytes / (kCols * sizeof(float));
  for (const std::int64_t rows : {kMostRows, kMostRows + 1, 3 * kMostRows}) {
    LargeRequest whole(rows, false), best(rows, true), beside(rows, false);
    Batch one, two;
    Launch(&one, {&whole});
    EXPECT_EQ(lane_.RunsAtOnce(one), rows == kMostRows);
    Launch(&two, {&best, &beside});
    ExpectBack(2);
    for (const LargeRequest* request : {&whole, &best, &beside}) request->ExpectAnswers();
  }
  while (wakes_ < 5) std::this_thread::yield();
  EXPECT_EQ(wakes_, 5) << "one for each batch on the workers";
}

TEST_F(CpuLaneTest, PiecesAreBroughtTogetherFirst) {
  testing::TestMemory received(ReceivePool::kLargest);
  ASSERT_TRUE(ReceivePool::Install(received.data(), ReceivePool::kLargest));
  std::fill_n(received.data(), kSlab, std::byte{0});
  *reinterpret_cast<float*>(received.data()) = 100;  // the rest has no share beside it
  testing::ReceivedRequest request({received.data(), kSlab}, kSlab / sizeof(float));
  Batch batch;
  batch.Open(kernels::DataType::kFloat32, kernels::DataType::kFloat32, SpanRef(&arena_, arena_.TryReserve(kSlab)),
             Batch::Need{kSlab, 0}, TimePoint());
  std::fill_n(memory_.data(), 64 * kSlab, std::byte{0});
  batch.Add(&request, TimePoint(), /*gather=*/true);
  ASSERT_EQ(batch.pieces().size(), 1u);
  batch.Close(CloseReason::kIdle);
  lane_.Launch(&batch);
  ExpectBack(1);
  EXPECT_FLOAT_EQ(request.floats()[0], 1.0f);
  EXPECT_TRUE(ReceivePool::Remove());
}

}  // namespace
}  // namespace softmax::server
