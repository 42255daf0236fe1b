#include "server/batching/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

constexpr std::size_t kSlab = 4096;

TEST(Arena, SmallSpansComeFromTheLowEndLargeOnesFromTheHigh) {
  testing::TestMemory memory(256 * kSlab);
  Arena arena(memory.data(), 256 * kSlab, kSlab);
  const Span small = arena.TryReserve(1);
  EXPECT_EQ(small.first, 0u);
  EXPECT_EQ(small.slabs, 1u);
  const Span large = arena.TryReserve(Arena::kLargeSlabs * kSlab);
  EXPECT_EQ(large.first, 256 - Arena::kLargeSlabs);
  EXPECT_EQ(arena.slabs_used(), 1 + Arena::kLargeSlabs);
  EXPECT_EQ(arena.Address(small), memory.data());
}

TEST(Arena, ReleasedLowSlabsAreUsedAgainFirst) {
  testing::TestMemory memory(128 * kSlab);
  Arena arena(memory.data(), 128 * kSlab, kSlab);
  const Span a = arena.TryReserve(3 * kSlab);
  const Span b = arena.TryReserve(2 * kSlab);
  EXPECT_EQ(b.first, 3u);
  arena.Release(a);
  EXPECT_EQ(arena.TryReserve(4 * kSlab).first, 5u);  // does not fit the hole of 3
  EXPECT_EQ(arena.TryReserve(3 * kSlab).first, 0u);
}

TEST(Arena, LooksAtHomeFirstAndThenElsewhere) {
  testing::TestMemory memory(200 * kSlab);
  Arena arena(memory.data(), 200 * kSlab, kSlab);
  constexpr std::uint32_t kHome = 2;
  const Span a = arena.TryReserve(20 * kSlab, kHome);
  const Span b = arena.TryReserve(20 * kSlab, kHome);
  const Span c = arena.TryReserve(20 * kSlab, kHome);
  EXPECT_EQ(a.first, 2 * Arena::kHomeSlabs);
  EXPECT_EQ(b.first, a.first + 20);
  EXPECT_EQ(c.first, b.first + 20);
  EXPECT_EQ(arena.TryReserve(20 * kSlab, kHome).first, 0u);  // no run of 20 is left there
  arena.Release(b);
  EXPECT_EQ(arena.TryReserve(3 * kSlab, kHome).first, b.first);
  // The last word holds 8 slabs.
  EXPECT_EQ(arena.TryReserve(9 * kSlab, 3).first, 20u);
  EXPECT_EQ(arena.TryReserve(8 * kSlab, 3).first, 192u);
  EXPECT_EQ(arena.TryReserve(1, 4).first, 29u);  // there is no such home
}

TEST(Arena, RefusesWhatDoesNotFitAndKeepsWorking) {
  testing::TestMemory memory(70 * kSlab);
  Arena arena(memory.data(), 70 * kSlab, kSlab);
  EXPECT_EQ(arena.TryReserve(71 * kSlab).slabs, 0u);
  const Span all = arena.TryReserve(70 * kSlab);
  EXPECT_EQ(all.slabs, 70u);
  EXPECT_EQ(arena.TryReserve(1).slabs, 0u);
  arena.Release(all);
  EXPECT_EQ(arena.slabs_used(), 0u);
  EXPECT_EQ(arena.TryReserve(70 * kSlab).slabs, 70u);
}

TEST(Arena, TrimFreesTheTail) {
  testing::TestMemory memory(64 * kSlab);
  Arena arena(memory.data(), 64 * kSlab, kSlab);
  Span span = arena.TryReserve(16 * kSlab);
  for (const std::uint32_t keep : {16u, 15u, 2u, 1u}) {
    arena.Trim(span, keep * kSlab - 1);
    EXPECT_EQ(span.slabs, keep);
    EXPECT_EQ(arena.slabs_used(), keep);
  }
  EXPECT_EQ(arena.TryReserve(kSlab).first, 1u);
}

TEST(Arena, ListenerHearsReleasesOnlyWhileSomebodyWaits) {
  testing::TestMemory memory(8 * kSlab);
  Arena arena(memory.data(), 8 * kSlab, kSlab);
  int heard = 0;
  arena.SetReleaseListener([&] { ++heard; });
  arena.Release(arena.TryReserve(1));
  EXPECT_EQ(heard, 0);
  arena.SetWaiting(true);
  arena.Release(arena.TryReserve(1));
  EXPECT_EQ(heard, 1);
}

// Against a plain model: spans never overlap, nothing leaks, and what fits is found.
TEST(Arena, AgreesWithAModelOverRandomUse) {
  constexpr std::uint32_t kSlabs = 200;
  testing::TestMemory memory(kSlabs * 64);
  Arena arena(memory.data(), kSlabs * 64, 64);
  std::mt19937 random(1);
  std::vector<bool> used(kSlabs);
  std::vector<Span> held;
  for (int step = 0; step < 50000; ++step) {
    if (random() % 2 == 0 || held.empty()) {
      const std::uint32_t want = random() % 3 == 0 ? 1 + random() % 80 : 1 + random() % 4;
      const std::uint32_t home = random() % 4 < 2 ? random() % 4 : Arena::kNoHome;
      const Span span = arena.TryReserve(want * 64ull, home);
      std::uint32_t run = 0, longest = 0;
      for (std::uint32_t i = 0; i < kSlabs; ++i) {
        run = used[i] ? 0 : run + 1;
        longest = std::max(longest, run);
      }
      ASSERT_EQ(span.slabs, longest >= want ? want : 0u);
      for (std::uint32_t i = 0; i < span.slabs; ++i) {
        ASSERT_FALSE(used[span.first + i]);
        used[span.first + i] = true;
      }
      if (span.slabs > 0) held.push_back(span);
    } else {
      const std::size_t pick = random() % held.size();
      for (std::uint32_t i = 0; i < held[pick].slabs; ++i) used[held[pick].first + i] = false;
      arena.Release(held[pick]);
      held[pick] = held.back();
      held.pop_back();
    }
  }
  for (const Span& span : held) arena.Release(span);
  EXPECT_EQ(arena.slabs_used(), 0u);
}

TEST(Arena, ManyThreadsNeverShareASlab) {
  testing::TestMemory memory(256 * 64);
  Arena arena(memory.data(), 256 * 64, 64);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&arena, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 5000; ++i) {
        const SpanRef span = [&] {
          const std::uint32_t home = random() % 4 == 0 ? Arena::kNoHome : static_cast<std::uint32_t>(t) / 2;
          const Span got = arena.TryReserve(64 * (1 + random() % 40), home);
          return got.slabs == 0 ? SpanRef() : SpanRef(&arena, got);
        }();
        if (!span) continue;
        // A shared slab is a data race that TSan sees, and a lost value that this sees.
        std::memset(span.address(), t, span.size());
        const SpanRef copy = span;
        for (std::uint64_t b = 0; b < copy.size(); b += 64) {
          ASSERT_EQ(copy.address()[b], static_cast<std::byte>(t));
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(arena.slabs_used(), 0u);
}

}  // namespace
}  // namespace softmax::server
