// The product's own arena and striped counter, compiled over atomics that the Interleaver knows, in every order of a
// few steps of two or three threads.
#include <absl/base/thread_annotations.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/model/model_atomic.h"
// Only after that.
#include "server/base/striped_counter.h"
#include "server/batching/arena.cc"
#include "server/batching/arena.h"

namespace softmax::server {
namespace {

using simulation::Interleaver;

constexpr std::uint32_t kSlab = 16;

// An arena whose first slabs are in use but for `free` of them, and what threads did with it.
class ArenaModel {
 public:
  ArenaModel(std::uint32_t slabs, std::uint32_t used)
      : memory_(slabs * kSlab), arena_(memory_.data(), memory_.size(), kSlab), owned_(slabs, 0) {
    if (used > 0) {
      EXPECT_EQ(arena_.TryReserve(used * kSlab).slabs, used);
    }
  }

  // Reserves; true: it has room, which is nobody else's.
  bool Reserve(std::uint32_t slabs, std::uint32_t home, Span* span) {
    *span = arena_.TryReserve(slabs * kSlab, home);
    for (std::uint32_t i = 0; i < span->slabs; ++i) shared_ = shared_ || owned_[span->first + i]++ > 0;
    return span->slabs > 0;
  }
  void Release(Span span) {
    for (std::uint32_t i = 0; i < span.slabs; ++i) --owned_[span.first + i];
    arena_.Release(span);
  }
  Arena& arena() { return arena_; }
  // Takes what is free, too.
  std::uint32_t CountFree() {
    std::uint32_t free = 0;
    while (arena_.TryReserve(kSlab).slabs > 0) ++free;
    return free;
  }
  bool shared() const { return shared_; }

 private:
  std::vector<std::byte> memory_;
  Arena arena_;
  std::vector<int> owned_;
  bool shared_ = false;
};

TEST(Interleavings, AreAllOfThem) {
  int steps = 0;
  bool wrong = false;
  const auto thread = [&] {
    for (int i = 0; i < 3; ++i) Interleaver::Step(), ++steps;
  };
  // Two threads of four pieces: 8 over 4.
  EXPECT_EQ(Interleaver::Explore(
                [&] {
                  return std::vector<std::function<void()>>{thread, thread};
                },
                [] { return true; }, &wrong),
            70u);
  EXPECT_EQ(steps, 70 * 6);
  // And the one that is wrong is found.
  int value = 0;
  const auto add = [&] {
    const int before = value;
    Interleaver::Step();
    value = before + 1;
  };
  Interleaver::Explore(
      [&] {
        value = 0;
        return std::vector<std::function<void()>>{add, add};
      },
      [&] { return value == 2; }, &wrong);
  EXPECT_TRUE(wrong);
}

TEST(Interleavings, TwoThreadsAtOneHomeNeverShareASlab) {
  std::unique_ptr<ArenaModel> model;
  bool wrong = false;
  const auto reserving = [&](std::uint32_t slabs) {
    return [&model, slabs] {
      Span span;
      if (model->Reserve(slabs, 0, &span) && slabs == 1) model->Release(span);
    };
  };
  const std::uint64_t orders = Interleaver::Explore(
      [&] {
        model = std::make_unique<ArenaModel>(64, 62);  // two are free
        return std::vector<std::function<void()>>{reserving(2), reserving(1)};
      },
      [&] { return !model->shared(); }, &wrong);
  EXPECT_FALSE(wrong);
  EXPECT_GT(orders, 20u);
}

// A span over two words is claimed piece by piece; who comes too late at the second gives the first back.
TEST(Interleavings, ASpanOverTwoWordsIsTakenWholeOrNotAtAll) {
  std::unique_ptr<ArenaModel> model;
  bool wrong = false;
  const std::uint64_t orders = Interleaver::Explore(
      [&] {
        model = std::make_unique<ArenaModel>(128, 0);
        EXPECT_EQ(model->arena().TryReserve(31 * kSlab).slabs + model->arena().TryReserve(31 * kSlab).slabs, 62u);
        return std::vector<std::function<void()>>{[&] {
                                                    Span span;
                                                    model->Reserve(3, Arena::kNoHome, &span);  // 62 to 64
                                                  },
                                                  [&] {
                                                    Span span;
                                                    model->Reserve(1, 1, &span);  // 64, or what is free behind it
                                                  }};
      },
      [&] { return !model->shared() && model->arena().slabs_used() == 66 && model->CountFree() == 62; }, &wrong);
  EXPECT_FALSE(wrong);
  EXPECT_GT(orders, 20u);
}

// Who is told of a release after having announced that it waits, and before having looked, sees the room or is told.
TEST(Interleavings, WhoWaitsForRoomIsToldOrSeesIt) {
  std::unique_ptr<ArenaModel> model;
  Span held;
  bool told = false;
  bool found = false;
  bool wrong = false;
  const std::uint64_t orders = Interleaver::Explore(
      [&] {
        model = std::make_unique<ArenaModel>(64, 63);
        EXPECT_TRUE(model->Reserve(1, Arena::kNoHome, &held));
        told = found = false;
        model->arena().SetReleaseListener([&] { told = true; });
        return std::vector<std::function<void()>>{[&] { model->Release(held); },
                                                  [&] {
                                                    Span span;
                                                    model->arena().SetWaiting(true);
                                                    found = model->Reserve(1, Arena::kNoHome, &span);
                                                  }};
      },
      [&] { return (told || found) && !model->shared(); }, &wrong);
  EXPECT_FALSE(wrong);
  EXPECT_GT(orders, 10u);
}

// Two threads of one stripe.
TEST(Interleavings, AStripedCounterLosesNothing) {
  std::unique_ptr<StripedCounter> counter;
  bool wrong = false;
  const std::uint64_t orders = Interleaver::Explore(
      [&] {
        counter = std::make_unique<StripedCounter>();
        return std::vector<std::function<void()>>{[&] {
                                                    counter->Add(2);
                                                    counter->Add(-1);
                                                  },
                                                  [&] { counter->Add(3); }};
      },
      [&] { return counter->Sum() == 4; }, &wrong);
  EXPECT_FALSE(wrong);
  EXPECT_GT(orders, 2u);
}

}  // namespace
}  // namespace softmax::server
