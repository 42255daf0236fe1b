#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "server/app/parts.h"
#include "server/batching/batcher.h"
#include "tests/server/batching/fakes.h"
#include "tests/support/eventually.h"
#include "tests/support/region_client.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using Verdict = FrameMeter::Verdict;

constexpr std::size_t kSlab = 64u << 10;
constexpr std::size_t kArenaBytes = 16 * kSlab;

class GaugesTest : public ::testing::Test {
 protected:
  // By reason, how many more than at the last look.
  std::map<std::string, double> Ended() {
    std::map<std::string, double> more;
    for (const Reading& ended : Read("softmax_connections_ended_total")) {
      const std::string& reason = ended.labels.at(0).second;
      const double before = std::exchange(ended_[reason], ended.value);
      if (ended.value != before) more[reason] = ended.value - before;
    }
    return more;
  }

  Readings Read(const std::string& name) const {
    const auto gauge = std::find_if(gauges_.begin(), gauges_.end(), [&](const Gauge& g) { return g.name == name; });
    EXPECT_NE(gauge, gauges_.end()) << name;
    return gauge == gauges_.end() ? Readings() : gauge->read();
  }
  // Of the family's only number; of the one whose first label has this value.
  double ValueOf(const std::string& name, const std::string& label = "") const {
    for (const Reading& reading : Read(name)) {
      if (label.empty() ? reading.labels.empty() : reading.labels.at(0).second == label) return reading.value;
    }
    return -1;
  }

  testing::TestMemory memory_{kArenaBytes};
  Arena arena_{memory_.data(), kArenaBytes, kSlab};
  Backlog backlog_{{.threads = 0}, arena_};
  Connections connections_{{}};
  ServiceState state_{arena_, backlog_, connections_};
  Devices devices_{{"one", "two"}, Nanoseconds(0)};
  const QueueThreads queues_;
  const Gauges gauges_ = GaugesOf(state_, devices_, queues_, /*regions=*/nullptr, Config());

 private:
  std::map<std::string, double> ended_;
};

TEST_F(GaugesTest, AConnectionsEndIsCountedUnderItsReasonAndNoOther) {
  Ended();
  const std::pair<Verdict, const char*> verdicts[] = {{Verdict::kCalls, "calls"},
                                                      {Verdict::kFrames, "frames"},
                                                      {Verdict::kHeaders, "headers"},
                                                      {Verdict::kMessages, "messages"},
                                                      {Verdict::kWaiting, "waiting"}};
  EXPECT_EQ(std::size(verdicts), FrameMeter::kVerdicts - 1u);  // all but kFine
  for (const auto& [verdict, reason] : verdicts) {
    ReadGuard::End({}, /*fd=*/-1, verdict, /*goes_in_the_clear=*/false);
    EXPECT_EQ(Ended(), (std::map<std::string, double>{{reason, 1}}));
  }
  const std::pair<Use, const char*> uses[] = {
      {Use::kSilent, "silent"}, {Use::kHandshake, "handshake"}, {Use::kUnused, "unused"}, {Use::kIdle, "idle"}};
  EXPECT_EQ(std::size(uses), kUses);
  for (const auto& [use, reason] : uses) {
    ++connections_.room_counts().made[static_cast<std::size_t>(use)];
    EXPECT_EQ(Ended(), (std::map<std::string, double>{{reason, 1}}));
  }
  ++connections_.room_counts().refused;
  EXPECT_EQ(Ended(), (std::map<std::string, double>{{"no_place", 1}}));
}

// Each is something that the others are not.
TEST_F(GaugesTest, EachTellsItsOwnNumber) {
  testing::PuppetLane lane;
  testing::CountingRecorder recorder;
  Batcher batcher({}, arena_, backlog_, lane, recorder, [] {});
  testing::TestRequest queued(1, 25);
  ASSERT_TRUE(backlog_.Push(&queued, &batcher, /*small=*/true));
  const SpanRef used(&arena_, arena_.TryReserve(5 * kSlab));
  state_.requests_in_flight.Add(7);
  connections_.unread_budget().Add(1001);
  connections_.held_bytes().Add(2 * kSlab + 1);
  connections_.Add("fd:1", dup(0), "client", /*server=*/0);
  devices_.AddInFlight(1, 77);
  EXPECT_EQ(ValueOf("softmax_requests_in_flight"), 7);
  EXPECT_EQ(ValueOf("softmax_requests_queued"), 1);
  EXPECT_EQ(ValueOf("softmax_queued_bytes"), 112);  // as it lies in a batch
  EXPECT_EQ(ValueOf("softmax_unread_bytes"), 1001);
  EXPECT_EQ(ValueOf("softmax_slabs", "total"), 16);
  EXPECT_EQ(ValueOf("softmax_slabs", "used"), 5);
  EXPECT_EQ(ValueOf("softmax_slabs", "held_by_answers"), 3);
  EXPECT_EQ(ValueOf("softmax_connections"), 1);
  EXPECT_EQ(ValueOf("softmax_ready"), 0);
  state_.health.SetReady(true);
  EXPECT_EQ(ValueOf("softmax_ready"), 1);
  EXPECT_EQ(ValueOf("softmax_unsafe_testing"), 0);
  EXPECT_EQ(ValueOf("softmax_degraded"), 0);
  devices_.Lose(0, "for a test", Devices::Loss::kFailed);
  EXPECT_EQ(ValueOf("softmax_degraded"), 1);
  EXPECT_EQ(ValueOf("softmax_device_serving", "0"), 0);
  EXPECT_EQ(Read("softmax_device_serving").at(1).labels.at(1), std::pair(std::string("name"), std::string("two")));
  EXPECT_EQ(ValueOf("softmax_device_in_flight_bytes", "1"), 77);
  backlog_.Stop(/*fail=*/true);
  Backlog::Taken taken;
  TimePoint next;
  while (backlog_.TryTake(&taken, &next)) backlog_.CarryOut(std::exchange(taken, {}));
  batcher.Poll();
  EXPECT_EQ(queued.completions, 1);
  EXPECT_EQ(ValueOf("softmax_requests_queued") + ValueOf("softmax_queued_bytes"), 0);
}

TEST_F(GaugesTest, OfOneDeviceNobodyCountsWhatIsInFlight) {
  const Devices one({"one"}, Nanoseconds(0));
  const Gauges gauges = GaugesOf(state_, one, queues_, /*regions=*/nullptr, Config());
  for (const Gauge& gauge : gauges) {
    const std::string name = gauge.name;
    if (name.starts_with("softmax_device_")) {
      EXPECT_EQ(gauge.read().size(), name == "softmax_device_serving" ? 1u : 0u) << name;
    }
  }
}

class NoSource final : public SharedMemorySource {
 public:
  std::uint64_t shared_page(int /*device*/) const override { return 4096; }
  absl::StatusOr<SharedMemory> MakeShared(int /*device*/, std::uint64_t /*bytes*/) override {
    return absl::ResourceExhaustedError("for a test");
  }
  std::array<std::uint8_t, 16> device_uuid(int /*device*/) const override { return {}; }
};

TEST_F(GaugesTest, RegionsHaveAGaugeForEachMemoryAndACountForEachRefusal) {
  const softmax::testing::TempFolder folder;
  NoSource source;
  RegionServer::Options options;
  options.socket = folder.path("regions");
  options.uids = {geteuid() + 1};
  options.host = {1 << 20, 1 << 20};
  options.devices = 2;
  options.keeps_memory = [] { return false; };
  for (const std::size_t device_bytes : {0, 1 << 20}) {
    options.device = {device_bytes, device_bytes};
    const auto server = RegionServer::Create(options, source);
    ASSERT_TRUE(server.ok()) << server.status();
    const Gauges gauges = GaugesOf(state_, devices_, queues_, server->get(), Config());
    const auto read = [&gauges](const std::string& name) {
      std::map<std::string, double> values;  // by the first label
      for (const Gauge& gauge : gauges) {
        if (gauge.name != name) continue;
        for (const Reading& reading : gauge.read()) values[reading.labels.at(0).second] = reading.value;
      }
      return values;
    };
    std::set<std::string> memories;
    for (const auto& [memory, bytes] : read("softmax_region_bytes")) memories.insert(memory);
    using Names = std::set<std::string>;
    EXPECT_EQ(memories, device_bytes == 0 ? Names({"host"}) : Names({"host", "0", "1"}));
    const softmax::testing::RegionClient stranger(options.socket);
    const auto refused = [&read] { return read("softmax_regions_refused_total"); };
    EXPECT_TRUE(softmax::testing::Eventually([&] { return refused()["user"] == 1; }));
    EXPECT_EQ(refused().size(), RegionRefusal::kReasons);
  }
}

}  // namespace
}  // namespace softmax::server
