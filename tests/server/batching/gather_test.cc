// Requests whose bytes a lane reads where they were received.
#include <gtest/gtest.h>

#include "server/base/receive_pool.h"
#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

constexpr std::size_t kSlab = 64 << 10;
constexpr std::size_t kPoolBytes = 4 * ReceivePool::kLargest;
constexpr std::int64_t kColumns = 4096;

// A row 0, 1, 2, ... cut into pieces, in the pool's memory or beside it.
class LentRequest final : public PendingRequest {
 public:
  LentRequest(std::byte* pool, std::int64_t rows, std::vector<std::uint64_t> cuts, std::vector<bool> in_pool) {
    spec_.outer = rows;
    spec_.cols = kColumns;
    arrived_ = SteadyClock::now();
    for (std::int64_t i = 0; i < rows * kColumns; ++i) values_.push_back(static_cast<float>(i));
    const auto* const bytes = reinterpret_cast<const std::byte*>(values_.data());
    cuts.push_back(spec_.input_bytes());
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      std::byte* place = pool + begin + 1 + i;  // at odd addresses
      if (!in_pool[i]) place = beside_.emplace_back(new std::byte[cuts[i] - begin]).get();
      std::memcpy(place, bytes + begin, cuts[i] - begin);
      pieces_.push_back({place, cuts[i] - begin});
      begin = cuts[i];
    }
  }
  void CopyInput(std::byte* destination) override {
    for (const InputPiece& piece : pieces_) {
      std::memcpy(destination, piece.data, piece.bytes);
      destination += piece.bytes;
    }
    ++copies;
  }
  void LendInput(InputPieces* pieces) override { *pieces = pieces_; }
  const std::uint32_t* lengths() const override { return nullptr; }
  void Complete(const Answer& answer) override {
    copied = copied_bytes();
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    const auto* const output = reinterpret_cast<const float*>(answer.output);
    right = true;
    for (std::size_t i = 0; i < values_.size(); ++i) right = right && output[i] == 2 * values_[i];
  }

  int copies = 0;
  bool right = false;
  std::uint64_t copied = 0;

 private:
  std::vector<float> values_;
  std::vector<std::unique_ptr<std::byte[]>> beside_;
  InputPieces pieces_;
};

// Brings pieces together as a device does, into memory of its own.
class GatheringLane final : public testing::FinishingLane {
 public:
  void Launch(Batch* batch) override {
    std::vector<std::byte> staging(batch->input_bytes());
    for (const kernels::GatherPiece& piece : batch->pieces()) {
      std::memcpy(staging.data() + piece.offset, piece.source, piece.bytes);
    }
    for (const std::uint32_t index : batch->gathered_segments()) {
      const kernels::Segment& segment = batch->segments()[index];
      const auto offset = static_cast<const std::byte*>(segment.input) - batch->span().address();
      const auto bytes = static_cast<std::size_t>(segment.outer * segment.cols) * sizeof(float);
      std::memcpy(const_cast<void*>(segment.input), staging.data() + offset, bytes);
    }
    testing::PuppetLane::Run(*batch);
    launched.push_back(*batch->segments().data());
    segments = batch->segments().size();
    gathered = batch->gathered_segments().size();
    Finish(batch);
  }
  std::uint64_t gather_bytes() const override { return 4 * kSlab; }

  std::vector<kernels::Segment> launched;
  std::size_t segments = 0;
  std::size_t gathered = 0;
};

class GatherTest : public ::testing::Test {
 protected:
  GatherTest() : memory_(16 * kSlab), pool_(kPoolBytes), arena_(memory_.data(), 16 * kSlab, kSlab) {
    EXPECT_TRUE(ReceivePool::Install(pool_.data(), kPoolBytes));
    Batcher::Options options;
    options.batch.bytes = 2 * kSlab;
    options.inline_copy_bytes = 2 * kSlab;
    options.gather_bytes = 16 << 10;
    batcher_ = std::make_unique<Batcher>(options, arena_, backlog_, lane_, recorder_, [this] {
      ++wakes_;
      wakes_.notify_all();
    });
  }
  ~GatherTest() override { EXPECT_TRUE(ReceivePool::Remove()); }
  void Run(PendingRequest* request) {
    batcher_->Submit(request, now_);
    batcher_->Flush(now_);
    batcher_->Poll();
  }

  testing::TestMemory memory_;
  testing::TestMemory pool_;
  Arena arena_;
  Backlog backlog_{Backlog::Options{}, arena_};
  GatheringLane lane_;
  testing::CountingRecorder recorder_;
  std::atomic<int> wakes_{0};
  std::unique_ptr<Batcher> batcher_;
  const TimePoint now_ = SteadyClock::now();
};

TEST_F(GatherTest, WhatIsInThePoolIsNotCopied) {
  LentRequest request(pool_.data(), 1, {5001}, {true, true});
  Run(&request);
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copied, 0u);
  EXPECT_EQ(request.copies, 0);
  EXPECT_EQ(lane_.gathered, 1u);
}

TEST_F(GatherTest, OnlyWhatIsNotInThePoolIsCopied) {
  LentRequest request(pool_.data(), 1, {1001, 3001, 5002}, {false, false, true, true});
  Run(&request);
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copied, 3001u);
}

TEST_F(GatherTest, MostlyOutsideThePoolIsCopiedWhole) {
  LentRequest request(pool_.data(), 1, {1001}, {true, false});
  Run(&request);
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copies, 1);
  EXPECT_EQ(request.copied, kColumns * sizeof(float));
  EXPECT_EQ(lane_.gathered, 0u);
}

TEST_F(GatherTest, CutTooFineIsCopied) {
  std::vector<std::uint64_t> cuts;
  for (std::uint64_t cut = 1000; cut < kColumns * sizeof(float); cut += 1000) cuts.push_back(cut);
  LentRequest request(pool_.data(), 1, cuts, std::vector<bool>(cuts.size() + 1, true));
  Run(&request);
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copies, 1);
}

TEST_F(GatherTest, CopiedAndGatheredRequestsShareABatchAndNoSegment) {
  LentRequest first(pool_.data(), 1, {}, {true});
  LentRequest copied(pool_.data(), 1, {}, {false});
  LentRequest second(pool_.data() + kSlab, 2, {9000}, {true, true});
  for (PendingRequest* request : {static_cast<PendingRequest*>(&first), static_cast<PendingRequest*>(&copied),
                                  static_cast<PendingRequest*>(&second)}) {
    batcher_->Submit(request, now_);
  }
  batcher_->Flush(now_);
  batcher_->Poll();
  EXPECT_TRUE(first.right);
  EXPECT_TRUE(copied.right);
  EXPECT_TRUE(second.right);
  EXPECT_EQ(recorder_.batches.size(), 1u);
  EXPECT_EQ(lane_.segments, 3u);
  EXPECT_EQ(lane_.gathered, 2u);
}

TEST_F(GatherTest, NeighboursThatAreGatheredShareASegment) {
  LentRequest first(pool_.data(), 1, {}, {true});
  LentRequest second(pool_.data() + kSlab, 1, {9000}, {true, true});
  batcher_->Submit(&first, now_);
  batcher_->Submit(&second, now_);
  batcher_->Flush(now_);
  batcher_->Poll();
  EXPECT_TRUE(first.right);
  EXPECT_TRUE(second.right);
  EXPECT_EQ(lane_.segments, 1u);
  EXPECT_EQ(lane_.gathered, 1u);
}

TEST_F(GatherTest, SmallRequestsAreCopied) {
  testing::TestRequest request(1, 4095, 3);  // four bytes under the limit; it lends nothing
  Run(&request);
  EXPECT_EQ(request.copies, 1);
  EXPECT_EQ(request.floats()[4094], 6);
  EXPECT_EQ(lane_.gathered, 0u);
}

TEST_F(GatherTest, LargerThanABatchRunsAtOnceAndAlone) {
  LentRequest request(pool_.data(), 9, {70001}, {true, true});  // 144 KiB; a batch has 128
  batcher_->Submit(&request, now_);
  EXPECT_EQ(lane_.launched.size(), 1u) << "without the backlog's threads";
  batcher_->Poll();
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copied, 0u);
  EXPECT_EQ(recorder_.batches.at(0).reason, CloseReason::kLarge);
}

TEST_F(GatherTest, WithoutRoomItWaitsInTheBacklogAndIsGatheredThere) {
  const Span rest = arena_.TryReserve(14 * kSlab);
  LentRequest request(pool_.data(), 9, {70001}, {true, true});  // needs three slabs
  batcher_->Submit(&request, now_);
  EXPECT_TRUE(lane_.launched.empty());
  arena_.Release(rest);
  wakes_.wait(0);
  batcher_->Poll();
  batcher_->Poll();
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copied, 0u);
}

TEST_F(GatherTest, MoreThanTheLaneGathersIsCopiedByTheBacklog) {
  LentRequest request(pool_.data(), 17, {70001}, {true, false});  // 272 KiB; the lane takes 256
  batcher_->Submit(&request, now_);
  EXPECT_TRUE(lane_.launched.empty());
  wakes_.wait(0);
  batcher_->Poll();
  batcher_->Poll();
  EXPECT_TRUE(request.right);
  EXPECT_EQ(request.copies, 1);
}

}  // namespace
}  // namespace softmax::server
