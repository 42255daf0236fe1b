// Three replicas under an open loop: restarted one after the other, and killed. What a caller with the client library
// sees of it.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/end_to_end/answered.h"
#include "tests/end_to_end/open_loop.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace softmax::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int kReplicas = 3;
// Clients learn of a drain by the health service; a machine that is busy with other things lets them wait for it.
constexpr char kDrainDelay[] = "--drain-delay=500ms";
// A request waits for its batch to be so old, so that some are on their way whenever a server is killed.
constexpr char kHeldBatches[] = "--max-queue-delay=50ms";

class Replicas {
 public:
  explicit Replicas(std::vector<std::string> flags) : flags_(std::move(flags)) {
    for (int i = 0; i < kReplicas; ++i) {
      servers_.push_back(std::make_unique<ServerProcess>(flags_));
      addresses_.push_back(servers_.back()->target());
    }
  }

  ServerProcess& operator[](int i) { return *servers_[static_cast<std::size_t>(i)]; }

  std::string target() const {
    std::string list;
    for (const std::string& address : addresses_) list += (list.empty() ? "" : ",") + address;
    return list;
  }

  void StartAgain(int i) {
    const auto at = static_cast<std::size_t>(i);
    std::vector<std::string> flags = flags_;
    flags.push_back("--address=" + addresses_[at]);
    servers_[at] = std::make_unique<ServerProcess>(flags);
    ASSERT_EQ(servers_[at]->target(), addresses_[at]) << servers_[at]->Log();
  }

  // How long until it has answered something, after it had begun anew.
  milliseconds UntilItAnswers(int i, Clock::time_point since) {
    Eventually([&] { return Answered((*this)[i]) > 0; }, since + seconds(20) - Clock::now());
    return std::chrono::duration_cast<milliseconds>(Clock::now() - since);
  }

 private:
  const std::vector<std::string> flags_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::string> addresses_;
};

OpenLoopOptions Load(const std::string& target, int attempts) {
  OpenLoopOptions options;
  options.client.target = target;
  options.client.deadline = seconds(20);
  options.client.retry.max_attempts = attempts;
  options.rate = 100;
  options.batch_every = milliseconds(attempts > 1 ? 200 : 0);  // a batch makes what a broken stream left again
  return options;
}

std::uint64_t Failures(const OpenLoopCounts& counts) {
  std::uint64_t failures = 0;
  for (const auto& [code, count] : counts.failed) failures += count;
  return failures;
}

void ExpectNothingLostOrWrong(const OpenLoopCounts& counts) {
  EXPECT_EQ(counts.started, counts.ended);
  EXPECT_EQ(counts.wrong, 0u) << counts.first_bad;
  EXPECT_EQ(counts.unclear, 0u) << counts.first_bad;
  EXPECT_EQ(counts.held_back, 0u);
}

// Until calls are answered by all of them.
void WaitForLoad(Replicas& replicas) {
  for (int i = 0; i < kReplicas; ++i) replicas.UntilItAnswers(i, Clock::now());
}

struct Restarting {
  OpenLoopCounts counts;
  client::ClientStats stats;
  milliseconds back{0};  // from a new process's start to its first answer, at the slowest
};

Restarting DrainEachTwice(const std::vector<std::string>& flags, int attempts, bool health_checks) {
  Replicas replicas(flags);
  OpenLoopOptions options = Load(replicas.target(), attempts);
  options.client.health_checks = health_checks;
  OpenLoop load(options);
  WaitForLoad(replicas);
  Restarting restarting;
  for (int restart = 0; restart < 2 * kReplicas; ++restart) {
    const int i = restart % kReplicas;
    replicas[i].Signal(SIGTERM);
    EXPECT_EQ(replicas[i].Wait(60000), 0) << replicas[i].Log();
    const Clock::time_point since = Clock::now();
    replicas.StartAgain(i);
    restarting.back = std::max(restarting.back, replicas.UntilItAnswers(i, since));
    EXPECT_GT(Answered(replicas[i]), 0) << "a replica that was started again gets its share";
  }
  load.Stop();
  restarting.counts = load.Look();
  restarting.stats = load.Stats();
  return restarting;
}

TEST(Replicas, NoCallFailsWhileEachIsDrainedAndStartedAgainTwiceRound) {
  const Restarting restarting = DrainEachTwice({kDrainDelay}, 5, true);
  ExpectNothingLostOrWrong(restarting.counts);
  EXPECT_EQ(Failures(restarting.counts), 0u) << restarting.counts.failed.begin()->first;
  EXPECT_GT(restarting.counts.ok, 300u);
  std::printf("6 restarts: %lu calls, %lu retries, longest call %ld ms; a replica answered %ld ms after its start\n",
              restarting.counts.ok, restarting.stats.retries, restarting.counts.longest / milliseconds(1),
              restarting.back.count());
}

// The test above can fail: a server that refuses as soon as it is told to end is seen by callers who neither ask for
// its health nor retry. It still has a batch to answer, so that there is a while in which it refuses.
TEST(Replicas, WithoutDelayHealthChecksAndRetriesARestartIsSeenAndNothingIsLost) {
  const Restarting restarting = DrainEachTwice({"--drain-delay=0s", "--max-queue-delay=200ms"}, 1, false);
  ExpectNothingLostOrWrong(restarting.counts);
  EXPECT_GT(Failures(restarting.counts), 0u);
  EXPECT_EQ(restarting.counts.failed.count("UNAVAILABLE"), restarting.counts.failed.size());
}

TEST(Replicas, NoCallFailsWhenOneIsKilledAndTheCallerRetries) {
  Replicas replicas({kHeldBatches});
  OpenLoop load(Load(replicas.target(), 5));
  WaitForLoad(replicas);
  load.Look();
  Restarting killing;
  for (int i = 0; i < kReplicas; ++i) {
    replicas[i].Signal(SIGKILL);
    replicas[i].Wait(10000);
    LetPass(milliseconds(300));  // it is away for so long
    const Clock::time_point since = Clock::now();
    replicas.StartAgain(i);
    killing.back = std::max(killing.back, replicas.UntilItAnswers(i, since));
  }
  load.Stop();
  killing.counts = load.Look();
  killing.stats = load.Stats();
  ExpectNothingLostOrWrong(killing.counts);
  EXPECT_EQ(Failures(killing.counts), 0u) << killing.counts.failed.begin()->first;
  EXPECT_GT(killing.stats.retries, 0u) << "nothing was on its way to the servers that were killed";
  std::printf("3 kills: %lu calls, %lu retries, longest call %ld ms; a replica answered %ld ms after its start\n",
              killing.counts.ok, killing.stats.retries, killing.counts.longest / milliseconds(1), killing.back.count());
}

}  // namespace
}  // namespace softmax::testing
