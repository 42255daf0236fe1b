// Pieces of any size at any address come together byte for byte, and nothing beside them changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/kernels/cuda/gpu_memory.h"

namespace softmax::kernels::testing {
namespace {

constexpr unsigned char kGuard = 0xa5;

class GatherTest : public GpuTest {
 protected:
  // `lengths` pieces, cut out of one block with gaps of `gap` bytes, put together from `offset` on.
  static void Check(const std::vector<std::uint64_t>& lengths, std::uint64_t gap, std::uint64_t offset, Place place) {
    std::uint64_t total = 0;
    for (const std::uint64_t length : lengths) total += length;
    const std::uint64_t source_bytes = total + (lengths.size() + 1) * gap + 64;
    Memory source(source_bytes, place);
    std::vector<std::byte> host(source_bytes);
    std::mt19937_64 random(total + gap);
    for (std::byte& byte : host) byte = static_cast<std::byte>(random());
    ASSERT_EQ(cudaSuccess, cudaMemcpy(source.data(), host.data(), source_bytes, cudaMemcpyDefault));
    Memory destination(offset + total + 64, Place::kDevice);
    ASSERT_EQ(cudaSuccess, cudaMemset(destination.data(), kGuard, destination.size()));

    std::vector<GatherPiece> pieces;
    std::vector<std::byte> expected(destination.size(), std::byte{kGuard});
    std::uint64_t from = gap;
    std::uint64_t to = offset;
    for (const std::uint64_t length : lengths) {
      pieces.push_back({source.data() + from, to, length});
      std::memcpy(expected.data() + to, host.data() + from, length);
      from += length + gap;
      to += length;
    }
    ASSERT_EQ(cudaSuccess,
              LaunchGather(pieces.data(), static_cast<std::int64_t>(pieces.size()), destination.data(), nullptr));
    std::vector<std::byte> result(destination.size());
    ASSERT_EQ(cudaSuccess, cudaMemcpy(result.data(), destination.data(), result.size(), cudaMemcpyDefault));
    const auto difference = std::mismatch(expected.begin(), expected.end(), result.begin());
    EXPECT_EQ(difference.first, expected.end()) << "at byte " << difference.first - expected.begin() << " of "
                                                << expected.size() << ", gap " << gap << ", offset " << offset;
  }
};

TEST_F(GatherTest, EveryMisalignmentOfSourceAndDestination) {
  for (std::uint64_t gap = 1; gap <= 17; ++gap) {
    for (std::uint64_t offset = 0; offset < 16; ++offset) {
      Check({1, 2, 3, 15, 16, 17, 33, 2047, 2048, 2049, 5000, 31}, gap, offset, Place::kMapped);
    }
  }
}

TEST_F(GatherTest, OneByteAndOnePieceAndNothing) {
  for (std::uint64_t length : {1, 2, 15, 16, 2048, 4096}) Check({length}, 3, 5, Place::kMapped);
  Check({7, 0, 9}, 1, 0, Place::kDevice);
  EXPECT_EQ(cudaSuccess, LaunchGather(nullptr, 0, nullptr, nullptr));
}

TEST_F(GatherTest, MorePiecesThanOneLaunchTakes) {
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t i = 0; i < 1000; ++i) lengths.push_back(1 + i * 37 % 5001);
  Check(lengths, 9, 2, Place::kMapped);
  Check(std::vector<std::uint64_t>(161, 1), 1, 7, Place::kDevice);
}

TEST_F(GatherTest, AMessageOf16MiBAsItArrives) {
  std::vector<std::uint64_t> lengths{65519};
  for (int i = 0; i < 255; ++i) lengths.push_back(65536);
  Check(lengths, 40, 0, Place::kMapped);
}

TEST_F(GatherTest, InvalidArguments) {
  Memory memory(64, Place::kDevice);
  const GatherPiece good{memory.data(), 0, 16};
  const GatherPiece null{nullptr, 0, 16};
  EXPECT_EQ(cudaErrorInvalidValue, LaunchGather(&good, -1, memory.data(), nullptr));
  EXPECT_EQ(cudaErrorInvalidValue, LaunchGather(nullptr, 1, memory.data(), nullptr));
  EXPECT_EQ(cudaErrorInvalidValue, LaunchGather(&good, 1, nullptr, nullptr));
  EXPECT_EQ(cudaErrorInvalidValue, LaunchGather(&null, 1, memory.data(), nullptr));
}

}  // namespace
}  // namespace softmax::kernels::testing
