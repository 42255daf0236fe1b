#pragma once

#include <absl/strings/str_cat.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "server/execution/devices.h"
#include "server/execution/watched_lane.h"
#include "tests/simulation/checkers.h"
#include "tests/simulation/random.h"
#include "tests/simulation/script.h"
#include "tests/simulation/world.h"

// What a world is made of: world.cc moves it, fates.cc has its requests and devices and says what has to hold of them.
namespace softmax::simulation {

using std::chrono::milliseconds;

// Beginning late enough that nothing is before the epoch.
inline const TimePoint kBegin = TimePoint(std::chrono::hours(1));
inline thread_local TimePoint g_now = kBegin;
inline TimePoint Now() { return g_now; }

constexpr std::uint32_t kMostIdleTurns = 500;
// Several turns of a head that waits (script.cc), and what is queued before it.
constexpr Nanoseconds kLongestPassing = milliseconds(4);
constexpr Nanoseconds kLongestWork = std::chrono::microseconds(300);

enum WorldStream : std::uint64_t { kLatency = 100, kTurn, kCopy, kTesting };

enum class EventKind : std::uint8_t {
  kTurn,
  kLaneDone,
  kFiller,
  kCarry,
  kSent,
  kLeaves,
  kSweep,
  kTest,
  kTested,
  kLateWrite,
  kStopBacklog
};

struct Event {
  TimePoint at;
  std::uint64_t order;  // of its making: what is due at one time happens in this order
  EventKind kind;
  std::uint32_t index;
  void* what;
  bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
};

class World;
class Request;

// What is made a text only where somebody listens.
inline std::string Text(absl::StatusCode code) { return absl::StatusCodeToString(code); }
template <typename Part>
const Part& Text(const Part& part) {
  return part;
}

// A connection's requests and their share of its thread.
struct Connection {
  std::shared_ptr<server::ConnectionShare> share = std::make_shared<server::ConnectionShare>();
  std::vector<Request*> requests;  // not completed; unordered
};

class Request final : public server::PendingRequest {
 public:
  Request(World& world, std::uint32_t thread) : world_(world), thread_(thread) {}
  void Begin(const Action& action, Connection* connection);

  void CopyInput(std::byte* destination) override;
  const std::uint32_t* lengths() const override { return lengths_.data(); }
  bool CallerLeft() const override { return left_; }

  const Action& action() const { return *action_; }
  std::uint32_t thread() const { return thread_; }
  Connection* connection() const { return connection_; }
  bool completed() const { return completed_; }
  bool copied() const { return copied_; }
  TimePoint left_at() const { return left_at_; }
  void Leave() {
    if (left_) return;
    left_ = true;
    left_at_ = g_now;
  }
  // Its connection has gone.
  void Forget() { connection_ = nullptr; }
  // Where its answer is, if not in a message; null: there.
  const std::byte* region_output() const { return spec_.output_in_region ? regions_.output : nullptr; }
  // Whether the bytes are what the request is to be answered with.
  bool IsAnswer(const std::byte* output) const;

  server::CallKind kind() const { return action_->streamed ? server::CallKind::kStreamed : server::CallKind::kUnary; }
  // What admission has to take it for.
  server::Charge fair_charge() const { return server::ChargeOf(spec_, 0, kind(), server::Prices()); }

  std::uint32_t place = 0;            // in its connection's list
  std::uint64_t copied_before = 0;    // of its thread, when it arrived
  std::uint64_t ahead = 0;            // of its thread: arrived before it, and neither copied nor ended by then
  bool is_alone = false;              // its connection had no other
  const std::byte* output = nullptr;  // of an answer that waits to be sent
  server::SpanRef held;
  std::shared_ptr<server::ConnectionShare> share;

 private:
  void Complete(const server::Answer& answer) override;
  void FillInput(std::byte* destination) const;
  void MakeRegion();
  template <typename In, typename Out>
  bool IsAnswerOf(const std::byte* output) const;

  World& world_;
  const std::uint32_t thread_;
  const Action* action_ = nullptr;
  Connection* connection_ = nullptr;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::byte> region_;  // as its client has it, who may keep it longer than the server
  bool left_ = false;
  TimePoint left_at_;
  bool copied_ = false;
  bool completed_ = false;
};

// One thread's lane on one device.
class SimulatedLane final : public server::Lane {
 public:
  SimulatedLane(World& world, std::uint32_t thread, std::uint32_t device)
      : world_(world), thread_(thread), device_(device) {}
  void Launch(server::Batch* batch) override;
  server::Batch* Poll() override;
  bool needs_polling() const override;
  // When the oldest batch is ready; kNoDeadline: none will be.
  TimePoint due() const { return running_.empty() ? kNoDeadline : running_.front().due; }

 private:
  struct Running {
    server::Batch* batch;
    TimePoint due;
    const std::byte* begin;
    std::uint64_t bytes;
    bool fails;
  };
  World& world_;
  const std::uint32_t thread_;
  const std::uint32_t device_;
  std::deque<Running> running_;
};

// What a LeastLoadedLane launches on: other threads may lose the device between its choice and the launch.
class ChosenLane final : public server::Lane {
 public:
  ChosenLane(World& world, std::unique_ptr<server::Lane> lane, std::uint32_t device)
      : world_(world), lane_(std::move(lane)), device_(device) {}
  void Launch(server::Batch* batch) override;
  server::Batch* Poll() override { return lane_->Poll(); }
  bool needs_polling() const override { return lane_->needs_polling(); }

 private:
  World& world_;
  const std::unique_ptr<server::Lane> lane_;
  const std::uint32_t device_;
};

struct Device {
  bool fails = false;  // whatever runs on it from now on
  bool hangs = false;
  bool lost_when_chosen = false;
  std::uint32_t tested_at = 0;  // how many were lost when the last test that it passed began
};

struct Thread {
  std::vector<SimulatedLane*> lanes;
  std::vector<server::WatchedLane*> watched;
  std::unique_ptr<server::Lane> lane;
  std::unique_ptr<server::Batcher> batcher;
  std::unique_ptr<server::AdmissionQueue> admission;
  std::vector<Request*> arrived;
  std::vector<Request*> taken;  // of those, in this turn; empty between turns
  std::vector<std::unique_ptr<Request>> spare;
  TimePoint turn_at = kNoDeadline;
  TimePoint stands_still_until{};
  std::uint64_t turns = 0;
  std::uint32_t idle_turns = 0;  // one after another, in which nothing came, finished or began
  std::uint64_t arrivals = 0;
  std::uint64_t copied = 0;   // requests whose input was copied
  std::uint64_t settled = 0;  // those, and what ended without
  std::uint32_t running = 0;  // batches on devices that work
  std::uint64_t placed = 0;   // requests that lie in a batch and are not completed
};

class World {
 public:
  World(const Script& script, const std::function<void(const std::string&)>& tell);
  ~World();
  Outcome Run();

 private:
  friend class Request;
  friend class SimulatedLane;
  friend class ChosenLane;

  template <typename... Parts>
  void Note(std::uint64_t what, std::uint64_t a, std::uint64_t b, const Parts&... parts) {
    trace_ = (trace_ ^ (static_cast<std::uint64_t>(g_now.time_since_epoch().count()) + what)) * 0x100000001B3u;
    trace_ = (trace_ ^ (a << 32 ^ b)) * 0x100000001B3u;
    if (tell_) [[unlikely]]
      tell_(absl::StrCat((g_now - kBegin).count(), " ns ", Text(parts)...));
  }

  void Push(EventKind kind, TimePoint at, std::uint32_t index = 0, void* what = nullptr);
  void Act(const Action& action);
  void Arrive(const Action& action);
  void HangUp(std::uint32_t connection);
  void BeginDrain();
  void Happen(const Event& event);

  // A queue thread's turn comes at this time, unless one comes before.
  void Wake(std::uint32_t thread, TimePoint at);
  void Turn(std::uint32_t thread);
  bool Progress(Thread& thread);
  void PokeFillers();
  void BeginTest();
  void EndTest();
  void Sweep();
  void WatchDevices();

  void Copied(Request& request, bool by_own_thread);
  void Completed(Request& request, const server::Answer& answer);
  void CheckEstimate(const Request& request, const absl::Status& status);
  void CheckMemory(const server::Batch& batch);
  void CheckFate(const Request& request, const server::Answer& answer);
  void Sent(Request* request);
  void Recycle(Request* request);
  void CheckShare(const server::ConnectionShare& share);
  void CheckLimits(const server::ConnectionShare& share);
  void CheckEnd();

  const Script& script_;
  const Settings& settings_;
  const std::function<void(const std::string&)>& tell_;
  Verdict verdict_;
  std::byte* const memory_;
  server::Arena arena_;
  server::Backlog backlog_;
  server::Devices devices_;
  SpanChecker spans_;
  CountingRecorder recorder_;

  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  server::UnreadBudget unread_budget_;
  std::vector<Thread> threads_;
  std::vector<Device> hardware_;
  std::vector<Connection> connections_;
  std::vector<std::optional<server::Backlog::Taken>> fillers_;  // the backlog's threads, and what each copies
  std::uint32_t running_thread_ = UINT32_MAX;
  TimePoint fillers_at_ = kNoDeadline;
  // What a filler saw that found nothing to take.
  std::uint64_t looked_at_queued_ = 0;
  std::uint32_t looked_at_used_ = 0;
  TimePoint looks_again_at_{};
  TimePoint memory_was_short_at_{};
  std::uint32_t batches_ = 0;
  std::uint64_t pending_work_ = 0;  // to admission, of the requests that have arrived and are not completed
  std::uint64_t largest_answer_ = 0;
  std::uint64_t arrived_ = 0, completed_ = 0, answered_ = 0, empty_ = 0, dropped_ = 0;
  std::uint32_t losses_ = 0;
  std::optional<server::Devices::Test> test_;  // that goes on
  bool draining_ = false;
  bool stopped_ = false;
  bool sweeping_ = false;
  bool device_trouble_ = false;
  bool must_watch_ = false;                                 // something may keep a batch for longer than devices do
  std::map<const std::byte*, std::uint64_t> live_regions_;  // their bytes
  std::uint64_t trace_ = 0xCBF29CE484222325u;
};

}  // namespace softmax::simulation
