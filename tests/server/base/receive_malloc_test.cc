// The malloc of the server's program, which this one is linked with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "server/base/receive_pool.h"

namespace softmax::server {
namespace {

constexpr std::size_t kSize = ReceivePool::kSmallest;

class ReceiveMallocTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ReceivePool::Install(memory_.get(), 3 * ReceivePool::kLargest));
    ReceivePool::BeginReceiving();
  }
  void TearDown() override {
    ReceivePool::EndReceiving();
    EXPECT_TRUE(ReceivePool::Remove());
  }
  // The compiler knows what malloc and free do together, and would do without them.
  static void* Allocate(std::size_t bytes) {
    void* (*volatile const function)(std::size_t) = &std::malloc;
    return function(bytes);
  }

  const std::unique_ptr<std::byte[]> memory_{new std::byte[3 * ReceivePool::kLargest]};
};

TEST_F(ReceiveMallocTest, BlocksOfTheSizeComeFromThePoolUntilItIsEmpty) {
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) {
    blocks.push_back(Allocate(kSize));
    ASSERT_NE(blocks.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 16, 0u);
    EXPECT_EQ(ReceivePool::Contains(blocks.back()), i < 3) << i;
    std::memset(blocks.back(), i, kSize);
  }
  EXPECT_EQ(static_cast<char*>(blocks[0])[kSize - 1], 0);
  for (void* block : blocks) std::free(block);
  void* const again = Allocate(kSize);
  EXPECT_TRUE(ReceivePool::Contains(again));
  std::thread([again] { std::free(again); }).join();
}

TEST_F(ReceiveMallocTest, OtherSizesHaveTheLibrarysMalloc) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kSize - 1, ReceivePool::kLargest + 1}) {
    void* const block = Allocate(size);
    EXPECT_FALSE(ReceivePool::Contains(block)) << size;
    std::free(block);
  }
  std::free(nullptr);
}

TEST_F(ReceiveMallocTest, ABlockCanGrowAndGo) {
  auto* block = static_cast<char*>(Allocate(kSize));
  ASSERT_TRUE(ReceivePool::Contains(block));
  std::memset(block, 7, kSize);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  block = static_cast<char*>(std::realloc(block, 100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block), address);
  block = static_cast<char*>(std::realloc(block, 4 * kSize));
  EXPECT_FALSE(ReceivePool::Contains(block));
  EXPECT_TRUE(std::all_of(block, block + kSize, [](char byte) { return byte == 7; }));
  std::free(block);
  void* const rest = std::realloc(Allocate(kSize), 0);
  EXPECT_EQ(rest, nullptr);
  EXPECT_EQ(ReceivePool::blocks_used(), 1u) << "the one that this thread keeps";
}

}  // namespace
}  // namespace softmax::server
