// The product's own arena, backlog, inbox, waker and striped counter, compiled over atomics, locks, threads and alarms
// that the Interleaver knows, in every order of a few steps of two or three threads.
#include <absl/base/thread_annotations.h>
#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulation/model/model_atomic.h"
// Only after that.
#include "server/base/counters.h"
#include "server/base/receive_pool.h"
#include "server/batching/admission_queue.cc"
#include "server/batching/arena.cc"
#include "server/batching/backlog.cc"
#include "server/batching/batch.cc"
#include "server/batching/batcher.cc"
#include "server/batching/charge.cc"
#include "server/rpc/queue/waker.h"
#include "tests/server/batching/fakes.h"

namespace softmax::server {

// A real lock would stop the one thread that all fibers run on.
static_assert(sizeof(Mutex) == sizeof(bool), "the mutex of tests/simulation/model has to come first");

// What is in these models was received elsewhere.
bool ReceivePool::Contains(const void* /*address*/) { return false; }

namespace {

using simulation::Interleaver;
using Threads = std::vector<std::function<void()>>;

constexpr std::uint32_t kSlab = 16;

// Every order of the threads of a world, made anew for each, is right, and there are more than `least` of them.
template <typename World>
void ExpectRightInEveryOrder(std::uint64_t least, const std::function<Threads(World&)>& threads,
                             const std::function<bool(World&)>& right) {
  std::unique_ptr<World> world;
  bool wrong = false;
  const std::uint64_t orders = Interleaver::Explore(
      [&] {
        world = std::make_unique<World>();
        return threads(*world);
      },
      [&] { return right(*world); }, &wrong);
  EXPECT_FALSE(wrong) << orders;
  ::testing::Test::RecordProperty("orders", std::to_string(orders));
  EXPECT_GT(orders, least);
}

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
  EXPECT_EQ(Interleaver::Explore([&] { return Threads{thread, thread}; }, [] { return true; }, &wrong), 70u);
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
        return Threads{add, add};
      },
      [&] { return value == 2; }, &wrong);
  EXPECT_TRUE(wrong);
}

TEST(Interleavings, TwoThreadsAtOneHomeNeverShareASlab) {
  const auto reserving = [](ArenaModel& model, std::uint32_t slabs) {
    return [&model, slabs] {
      Span span;
      if (model.Reserve(slabs, 0, &span) && slabs == 1) model.Release(span);
    };
  };
  struct World : ArenaModel {
    World() : ArenaModel(64, 62) {}  // two are free
  };
  ExpectRightInEveryOrder<World>(
      20,
      [&](World& model) {
        return Threads{reserving(model, 2), reserving(model, 1)};
      },
      [](ArenaModel& model) { return !model.shared(); });
}

// A span over two words is claimed piece by piece; who comes too late at the second gives the first back.
TEST(Interleavings, ASpanOverTwoWordsIsTakenWholeOrNotAtAll) {
  const auto reserving = [](ArenaModel& model, std::uint32_t slabs, std::uint32_t home) {
    return [&model, slabs, home] {
      Span span;
      model.Reserve(slabs, home, &span);
    };
  };
  struct World : ArenaModel {
    World() : ArenaModel(128, 0) {}
  };
  ExpectRightInEveryOrder<World>(
      20,
      [&](World& model) {
        EXPECT_EQ(model.arena().TryReserve(31 * kSlab).slabs + model.arena().TryReserve(31 * kSlab).slabs, 62u);
        // 62 to 64; 64, or what is free behind it.
        return Threads{reserving(model, 3, Arena::kNoHome), reserving(model, 1, 1)};
      },
      [](ArenaModel& model) { return !model.shared() && model.arena().slabs_used() == 66 && model.CountFree() == 62; });
}

// Who is told of a release after having announced that it waits, and before having looked, sees the room or is told.
TEST(Interleavings, WhoWaitsForRoomIsToldOrSeesIt) {
  struct World : ArenaModel {
    World() : ArenaModel(64, 63) {}
    Span held;
    bool told = false, found = false;
  };
  ExpectRightInEveryOrder<World>(
      10,
      [](World& world) {
        EXPECT_TRUE(world.Reserve(1, Arena::kNoHome, &world.held));
        world.arena().SetReleaseListener([&] { world.told = true; });
        return Threads{[&] { world.Release(world.held); },
                       [&] {
                         Span span;
                         world.arena().SetWaiting(true);
                         world.found = world.Reserve(1, Arena::kNoHome, &span);
                       }};
      },
      [](World& world) { return (world.told || world.found) && !world.shared(); });
}

// The backlog's thread finds no room and sleeps, while another gives some back; that a time comes is no help.
TEST(Interleavings, WhoSleepsForMemoryIsWokenWhenItComesFree) {
  struct World {
    testing::TestMemory memory{64 * kSlab};
    Arena arena{memory.data(), 64 * kSlab, kSlab};
    SpanRef held{&arena, arena.TryReserve(64 * kSlab)};
    Backlog backlog{{.threads = 1}, arena, [] { return TimePoint(std::chrono::hours(1)); }};
    testing::PuppetLane lane;
    testing::CountingRecorder recorder;
    Batcher batcher{{}, arena, backlog, lane, recorder, [] {}};
    testing::TestRequest request{1, 4};
  };
  ExpectRightInEveryOrder<World>(
      100,
      [](World& world) {
        EXPECT_TRUE(world.backlog.Push(&world.request, &world.batcher, /*small=*/false));
        world.backlog.Stop(/*fail=*/false);  // its thread ends when this one is taken
        return Threads{[&] { world.held.Reset(); }};
      },
      [](World& world) { return world.request.copies == 1; });
}

// What a queue thread sleeps on, and what it does when an event comes.
struct Owner {
  grpc::CompletionQueue queue;
  Waker waker{&queue};

  void Sleep() {
    void* tag = nullptr;
    queue.Next(&tag);
    static_cast<Tag*>(tag)->Proceed(true);
  }
};

TEST(Interleavings, AWakeIsNotLost) {
  struct World : Owner {
    std::atomic<int> told{0};
  };
  ExpectRightInEveryOrder<World>(
      1000,
      [](World& world) {
        const auto telling = [&] {
          world.told.fetch_add(1);
          world.waker.Wake();
        };
        return Threads{telling, telling, [&] {
                         while (world.told.load() < 2) world.Sleep();
                       }};
      },
      [](World& world) { return !world.queue.misused(); });
}

TEST(Interleavings, NobodyIsWokenThroughAQueueThatHasEnded) {
  ExpectRightInEveryOrder<Owner>(
      5,
      [](Owner& owner) {
        return Threads{[&] { owner.waker.Wake(); },
                       [&] {
                         owner.waker.Close();
                         owner.queue.Shutdown();
                       }};
      },
      [](Owner& owner) { return !owner.queue.misused(); });
}

// As a queue thread: it looks into its inbox, and sleeps when there is nothing.
struct InboxModel : Owner {
  testing::TestMemory memory{64 * kSlab};
  Arena arena{memory.data(), 64 * kSlab, kSlab};
  Backlog backlog{{.threads = 0}, arena};
  testing::PuppetLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher{{}, arena, backlog, lane, recorder, [this] { waker.Wake(); }};
  testing::TestRequest first{1, 4};
  testing::TestRequest second{1, 4};

  void Deliver(PendingRequest& request) { batcher.DeliverFailure(&request, absl::UnavailableError("")); }
  void RunUntilBothAreAnswered() {
    batcher.Poll();
    while (first.completions + second.completions < 2) {
      Sleep();
      batcher.Poll();
    }
  }
  bool IsRight() const { return first.completions == 1 && second.completions == 1 && !queue.misused(); }
};

TEST(Interleavings, WhatOneThreadDeliversIsTakenBeforeTheOwnerSleepsForGood) {
  ExpectRightInEveryOrder<InboxModel>(
      100,
      [](InboxModel& model) {
        return Threads{[&] {
                         model.Deliver(model.first);
                         model.Deliver(model.second);
                       },
                       [&] { model.RunUntilBothAreAnswered(); }};
      },
      [](InboxModel& model) { return model.IsRight(); });
}

TEST(Interleavings, WhatTwoThreadsDeliverIsTakenBeforeTheOwnerSleepsForGood) {
  ExpectRightInEveryOrder<InboxModel>(
      1000,
      [](InboxModel& model) {
        return Threads{[&] { model.Deliver(model.first); }, [&] { model.Deliver(model.second); },
                       [&] { model.RunUntilBothAreAnswered(); }};
      },
      [](InboxModel& model) { return model.IsRight(); });
}

// Two threads of one stripe.
TEST(Interleavings, AStripedCounterLosesNothing) {
  StripedCounter().Add(0);  // this real thread's stripe is chosen, once
  ExpectRightInEveryOrder<StripedCounter>(
      2,
      [](StripedCounter& counter) {
        return Threads{[&] {
                         counter.Add(2);
                         counter.Add(-1);
                       },
                       [&] { counter.Add(3); }};
      },
      [](StripedCounter& counter) { return counter.Sum() == 4; });
}

}  // namespace
}  // namespace softmax::server
