#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/simulation/random.h"
#include "tests/simulation/shrink.h"
#include "tests/simulation/world.h"

namespace softmax::simulation {
namespace {

// Worlds that went wrong once, and what mended them.
struct Kept {
  std::uint64_t seed;
  std::uint32_t requests;
  const char* what;
};
constexpr Kept kKept[] = {
    {3, 2000, "a queue thread spun while max_queue_delay had passed and no lane was free"},
    {16, 2000, "the same with one device"},
    {842, 2000, "a device hangs, and a request above half of the arena waits (the script's fault)"},
    {1202, 2000, "a filler slept through the end of the head's turn (the world's fault)"},
    {1764302000875701, 2000, "admission takes a large request for many small ones (the checker's fault)"},
};

TEST(Worlds, ThatWentWrongOnceDoNot) {
  for (const Kept& kept : kKept) {
    EXPECT_EQ(RunWorld(MakeScript(kept.seed, kept.requests)).violation, "") << kept.seed << ": " << kept.what;
  }
}

TEST(Worlds, ManySmallOnesHold) {
  std::uint64_t answered = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Outcome outcome = RunWorld(MakeScript(seed, 1000));
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    answered += outcome.answered;
  }
  EXPECT_GT(answered, 100'000u);
}

TEST(Worlds, OfOneSeedAreOneWorld) {
  for (const std::uint64_t seed : {1, 2, 3, 44, 555}) {
    std::vector<std::string> first, second;
    const Script script = MakeScript(seed, 3000);
    const Outcome once = RunWorld(script, [&](const std::string& line) { first.push_back(line); });
    const Outcome twice = RunWorld(MakeScript(seed, 3000), [&](const std::string& line) { second.push_back(line); });
    EXPECT_GT(first.size(), 1000u);
    EXPECT_TRUE(first == second) << seed;
    EXPECT_EQ(once.trace, twice.trace);
    EXPECT_NE(once.trace, RunWorld(MakeScript(seed + 1, 3000)).trace);
  }
}

TEST(Worlds, AnActionIsTheSameWhateverElseIsThere) {
  Script script = MakeScript(7, 500);
  const std::string last = Describe(script.actions.back());
  EXPECT_EQ(Describe(MakeScript(7, 500).actions.back()), last);
  script.actions.erase(script.actions.begin(), script.actions.begin() + 250);
  EXPECT_EQ(RunWorld(script).violation, "");
  EXPECT_EQ(RunWorld(Script{7, script.settings, {}}).requests, 0u);
}

TEST(Shrink, LeavesWhatIsNeededOnly) {
  const Script script = MakeScript(5, 100'000);
  int runs = 0;
  const Script small = Shrink(script, [&](const Script& candidate) {
    ++runs;
    const auto has = [&](std::uint32_t id) {
      return std::any_of(candidate.actions.begin(), candidate.actions.end(),
                         [id](const Action& action) { return action.id == id; });
    };
    return has(17) && has(40'000) && has(99'999);
  });
  ASSERT_EQ(small.actions.size(), 3u);
  EXPECT_EQ(small.actions[0].id, 17u);
  EXPECT_EQ(small.actions[2].id, 99'999u);
  EXPECT_LT(runs, 1000);
}

TEST(Random, DependsOnWhatItIsForOnly) {
  EXPECT_EQ(Random(1, 2, 3).Next(), Random(1, 2, 3).Next());
  EXPECT_NE(Random(1, 2, 3).Next(), Random(1, 2, 4).Next());
  EXPECT_NE(Random(1, 2, 3).Next(), Random(1, 3, 3).Next());
  EXPECT_NE(Random(1, 2, 3).Next(), Random(2, 2, 3).Next());
}

}  // namespace
}  // namespace softmax::simulation
