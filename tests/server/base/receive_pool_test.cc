#include "server/base/receive_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace softmax::server {
namespace {

constexpr std::size_t kBlocks = 40;
constexpr std::size_t kSize = ReceivePool::kSmallest;

// A pool of 40 blocks; the test's thread receives.
class ReceivePoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ReceivePool::Install(memory_.get(), kBlocks * ReceivePool::kLargest));
    ReceivePool::BeginReceiving();
  }
  void TearDown() override {
    ReceivePool::EndReceiving();
    EXPECT_TRUE(ReceivePool::Remove());
  }
  static std::vector<void*> TakeAll() {
    std::vector<void*> blocks;
    while (void* const block = ReceivePool::TryTake(kSize)) blocks.push_back(block);
    return blocks;
  }
  static void GiveAll(const std::vector<void*>& blocks) {
    for (void* block : blocks) ReceivePool::Give(block);
  }

  const std::unique_ptr<std::byte[]> memory_{new std::byte[kBlocks * ReceivePool::kLargest]};
};

TEST_F(ReceivePoolTest, EveryBlockIsGivenOutOnceAndAgainWhenItIsBack) {
  for (int round = 0; round < 3; ++round) {
    const std::vector<void*> blocks = TakeAll();
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), kBlocks);
    for (void* block : blocks) {
      EXPECT_TRUE(ReceivePool::Contains(block));
      EXPECT_TRUE(ReceivePool::Contains(static_cast<std::byte*>(block) + ReceivePool::kLargest - 1));
      std::memset(block, round, ReceivePool::kLargest);
    }
    EXPECT_EQ(ReceivePool::blocks_used(), kBlocks);
    GiveAll(blocks);
  }
}

TEST_F(ReceivePoolTest, OtherSizesAndAddressesAreNotOfThePool) {
  EXPECT_EQ(ReceivePool::TryTake(kSize - 1), nullptr);
  EXPECT_EQ(ReceivePool::TryTake(ReceivePool::kLargest + 1), nullptr);
  EXPECT_EQ(ReceivePool::blocks_used(), 0u);
  EXPECT_FALSE(ReceivePool::Contains(memory_.get() + kBlocks * ReceivePool::kLargest));
  EXPECT_FALSE(ReceivePool::Contains(memory_.get() - 1));
}

TEST_F(ReceivePoolTest, ThereIsOnePoolAndItStaysAsLongAsABlockIsInUse) {
  std::byte other[ReceivePool::kLargest];
  EXPECT_FALSE(ReceivePool::Install(other, sizeof(other)));
  void* const block = ReceivePool::TryTake(kSize);
  EXPECT_FALSE(ReceivePool::Remove());
  EXPECT_FALSE(ReceivePool::Install(other, sizeof(other)));
  EXPECT_TRUE(ReceivePool::Contains(block));
  ReceivePool::Give(block);
  ReceivePool::EndReceiving();  // gives back what the thread kept
  EXPECT_TRUE(ReceivePool::Remove());
  EXPECT_FALSE(ReceivePool::Contains(block));
  EXPECT_FALSE(ReceivePool::Install(other, sizeof(other) - 1)) << "too small for one";
  ASSERT_TRUE(ReceivePool::Install(other, sizeof(other)));
}

TEST_F(ReceivePoolTest, AReceivingThreadKeepsWhatItUsedLast) {
  void* const block = ReceivePool::TryTake(kSize);
  ReceivePool::Give(block);
  EXPECT_EQ(ReceivePool::blocks_used(), 1u);
  std::thread([block] {
    void* const other = ReceivePool::TryTake(kSize);
    EXPECT_NE(other, block);
    ReceivePool::Give(other);
  }).join();
  EXPECT_EQ(ReceivePool::TryTake(kSize), block);
  ReceivePool::Give(block);
  ReceivePool::EndReceiving();
  EXPECT_EQ(ReceivePool::blocks_used(), 0u);
  const std::vector<void*> blocks = TakeAll();
  EXPECT_EQ(blocks.size(), kBlocks);
  GiveAll(blocks);
}

TEST_F(ReceivePoolTest, ThreadsTakeAndGiveEachOthersBlocks) {
  constexpr int kRounds = 20000;
  std::vector<std::atomic<void*>> shared(8);
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> clashes{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      if (t != 3) ReceivePool::BeginReceiving();  // one keeps nothing
      for (int i = 0; i < kRounds; ++i) {
        auto* const block = static_cast<std::atomic<int>*>(ReceivePool::TryTake(kSize));
        // A block that two threads have at a time is told by its second word, the first being the pool's.
        if (block != nullptr) {
          block[4].store(t);
          std::this_thread::yield();
          if (block[4].load() != t) ++clashes;
        }
        void* const old = shared[static_cast<std::size_t>(i + t) % shared.size()].exchange(block);
        if (old != nullptr) ReceivePool::Give(old);
      }
      if (t != 3) ReceivePool::EndReceiving();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<void*>& block : shared) {
    if (block.load() != nullptr) ReceivePool::Give(block);
  }
  EXPECT_EQ(clashes, 0);
  ReceivePool::EndReceiving();
  EXPECT_EQ(ReceivePool::blocks_used(), 0u);
}

}  // namespace
}  // namespace softmax::server
