#include "tests/simulation/world.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "server/execution/devices.h"
#include "server/execution/least_loaded_lane.h"
#include "server/execution/watched_lane.h"
#include "tests/simulation/checkers.h"
#include "tests/simulation/contents.h"
#include "tests/simulation/random.h"

namespace softmax::simulation {
namespace {

using server::TimePoint;
using std::chrono::milliseconds;

// Beginning late enough that nothing is before the epoch.
const TimePoint kBegin = TimePoint(std::chrono::hours(1));
thread_local TimePoint g_now = kBegin;
TimePoint Now() { return g_now; }

constexpr std::uint32_t kMostIdleTurns = 500;
// Several turns of a head that waits (script.cc), and what is queued before it.
constexpr Nanoseconds kLongestPassing = milliseconds(4);
constexpr Nanoseconds kLongestWork = std::chrono::microseconds(300);

enum Stream : std::uint64_t { kLatency = 100, kTurn, kCopy, kTest, kGarbage };

enum class EventKind : std::uint8_t {
  kTurn,
  kLaneDone,
  kFiller,
  kCarry,
  kSent,
  kLeaves,
  kSweep,
  kTest,
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
  // Whether the bytes are what the request is to be answered with.
  bool IsAnswer(const std::byte* output) const;

  std::uint32_t place = 0;            // in its connection's list
  std::uint64_t copied_before = 0;    // of its thread, when it arrived
  std::uint64_t ahead = 0;            // of its thread: arrived before it, and neither copied nor ended by then
  bool is_alone = false;              // its connection had no other
  const std::byte* output = nullptr;  // of an answer that waits to be sent
  server::SpanRef held;
  std::shared_ptr<server::ConnectionShare> share;

 private:
  void Complete(const server::Answer& answer) override;

  World& world_;
  const std::uint32_t thread_;
  const Action* action_ = nullptr;
  Connection* connection_ = nullptr;
  std::vector<std::uint32_t> lengths_;
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
  TimePoint due() const { return running_.empty() ? server::kNoDeadline : running_.front().due; }

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

struct Device {
  bool fails = false;  // whatever runs on it from now on
  bool hangs = false;
};

struct Thread {
  std::vector<SimulatedLane*> lanes;
  std::vector<server::WatchedLane*> watched;
  std::unique_ptr<server::Lane> lane;
  std::unique_ptr<server::Batcher> batcher;
  std::unique_ptr<server::AdmissionQueue> admission;
  std::vector<Request*> arrived;
  std::vector<std::unique_ptr<Request>> spare;
  TimePoint turn_at = server::kNoDeadline;
  TimePoint stands_still_until{};
  std::uint64_t turns = 0;
  std::uint32_t idle_turns = 0;  // one after another, in which nothing came, finished or began
  std::uint64_t arrivals = 0;
  std::uint64_t copied = 0;   // requests whose input was copied
  std::uint64_t settled = 0;  // those, and what ended without
  std::uint32_t running = 0;  // batches on devices that work
  std::uint64_t placed = 0;   // requests that lie in a batch and are not completed
};

struct Filler {
  std::optional<server::Backlog::Taken> taken;
};

class World {
 public:
  World(const Script& script, const std::function<void(const std::string&)>& tell);
  ~World();
  Outcome Run();

 private:
  friend class Request;
  friend class SimulatedLane;

  template <typename... Parts>
  void Note(std::uint64_t what, std::uint64_t a, std::uint64_t b, const Parts&... parts) {
    trace_ = (trace_ ^ (static_cast<std::uint64_t>(g_now.time_since_epoch().count()) + what)) * 0x100000001B3u;
    trace_ = (trace_ ^ (a << 32 ^ b)) * 0x100000001B3u;
    if (tell_) [[unlikely]]
      tell_(absl::StrCat((g_now - kBegin).count(), " ns ", parts...));
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
  void Sweep();
  void WatchDevices();

  void Copied(Request& request, bool by_own_thread);
  void Completed(Request& request, const server::Answer& answer);
  void CheckEstimate(const Request& request, const absl::Status& status);
  void CheckFate(const Request& request, const server::Answer& answer);
  void Sent(Request* request);
  void Recycle(Request* request);
  void CheckShare(const server::ConnectionShare& share);
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
  std::vector<Thread> threads_;
  std::vector<Device> hardware_;
  std::vector<Connection> connections_;
  std::vector<Filler> fillers_;
  std::uint32_t running_thread_ = UINT32_MAX;
  TimePoint fillers_at_ = server::kNoDeadline;
  // What a filler saw that found nothing to take.
  std::uint64_t looked_at_queued_ = 0;
  std::uint32_t looked_at_used_ = 0;
  TimePoint looks_again_at_{};
  TimePoint memory_was_short_at_{};
  std::uint32_t batches_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t arrived_ = 0, completed_ = 0, answered_ = 0, empty_ = 0, dropped_ = 0;
  std::uint32_t losses_ = 0;
  bool draining_ = false;
  bool stopped_ = false;
  bool sweeping_ = false;
  bool device_trouble_ = false;
  bool must_watch_ = false;  // something may keep a batch for longer than devices do
  std::uint64_t trace_ = 0xCBF29CE484222325u;
};

void Request::Begin(const Action& action, Connection* connection) {
  action_ = &action;
  connection_ = connection;
  left_ = copied_ = completed_ = false;
  spec_ = {};
  spec_.input_type = action.input;
  spec_.output_type = action.output;
  spec_.operation = action.operation;
  spec_.scale = action.half_scale ? 0.5 : 1.0;
  spec_.outer = action.rows;
  spec_.cols = action.columns;
  spec_.has_lengths = action.has_lengths;
  arrived_ = g_now;
  deadline_ = action.deadline.count() > 0 ? g_now + action.deadline : server::kNoDeadline;
  lengths_.clear();
  for (std::int64_t row = 0; action.has_lengths && row < spec_.outer; ++row) {
    lengths_.push_back(LengthOf(action.id, row, spec_.cols));
  }
}

void Request::CopyInput(std::byte* destination) {
  const std::size_t size = kernels::SizeOf(spec_.input_type);
  for (std::int64_t row = 0; row < spec_.outer; ++row) {
    for (std::int64_t column = 0; column < spec_.cols; column = NextColumn(column)) {
      const auto index = static_cast<std::uint64_t>(row * spec_.cols + column);
      Store(destination, index, size, ElementOf(action_->id, index));
    }
  }
  copied_ = true;
  world_.Copied(*this, world_.running_thread_ == thread_);
}

bool Request::IsAnswer(const std::byte* output_bytes) const {
  const std::size_t in = kernels::SizeOf(spec_.input_type);
  const std::size_t out = kernels::SizeOf(spec_.output_type);
  for (std::int64_t row = 0; row < spec_.outer; ++row) {
    const std::uint64_t length = spec_.has_lengths ? lengths_[static_cast<std::size_t>(row)] : 0;
    for (std::int64_t column = 0; column < spec_.cols; column = NextColumn(column)) {
      const auto index = static_cast<std::uint64_t>(row * spec_.cols + column);
      const std::uint64_t element = Narrowed(ElementOf(action_->id, index), in);
      const std::uint64_t expected = AnswerTo(element, spec_.operation, spec_.scale, length);
      if (Load(output_bytes, index, out) != Narrowed(expected, out)) return false;
    }
  }
  return true;
}

void Request::Complete(const server::Answer& answer) {
  world_.verdict_.Expect(!completed_, "exactly once: request #", action_->id, " was completed twice");
  world_.verdict_.Expect(world_.running_thread_ == thread_, "threads: request #", action_->id, " of thread ", thread_,
                         " was completed on thread ", world_.running_thread_);
  completed_ = true;
  world_.Completed(*this, answer);
}

void SimulatedLane::Launch(server::Batch* batch) {
  World& world = world_;
  Device& device = world.hardware_[device_];
  const std::uint32_t number = ++world.batches_;
  const std::byte* const begin = batch->span().address();
  world.Note(1, number, batch->requests(), "thread ", thread_, " launches batch ", number, " of ", batch->requests(),
             " requests on device ", device_);
  world.verdict_.Expect(
      world.devices_.state(device_) == server::Devices::State::kServing || world.devices_.count() == 1,
      "devices: batch ", number, " was launched on device ", device_, ", which does not serve");
  world.spans_.Take(begin, batch->bytes(), number);
  ++world.threads_[thread_].running;
  world.verdict_.Expect(world.threads_[thread_].running <= world.settings_.batcher.max_in_flight, "limits: thread ",
                        thread_, " has ", world.threads_[thread_].running, " batches in flight");
  Random random(world.script_.seed, kLatency, world.launches_++);
  TimePoint due = g_now + world.settings_.latency + Nanoseconds(random.Below(20'000)) + Nanoseconds(batch->bytes() / 8);
  if (device.hangs) {
    due = server::kNoDeadline;
    --world.threads_[thread_].running;
    // It may write at any time later.
    world.Push(EventKind::kLateWrite, g_now + Nanoseconds(random.Below(50'000'000)),
               static_cast<std::uint32_t>(batch->bytes()), batch->span().address());
  }
  if (!running_.empty()) due = std::max(due, running_.back().due);
  running_.push_back({batch, due, begin, batch->bytes(), device.fails});
  if (due != server::kNoDeadline && !world.settings_.lanes_poll) world.Push(EventKind::kLaneDone, due, thread_);
  world.WatchDevices();
}

server::Batch* SimulatedLane::Poll() {
  if (running_.empty() || running_.front().due > g_now) return nullptr;
  const Running done = running_.front();
  running_.pop_front();
  --world_.threads_[thread_].running;
  if (done.fails) {
    done.batch->status = absl::InternalError("simulated: the device failed");
  } else {
    Run(*done.batch);
    world_.spans_.GiveBack(done.begin, done.bytes);
  }
  world_.Note(2, thread_, device_, "device ", device_, " returns a batch to thread ", thread_,
              done.fails ? ": failed" : "");
  return done.batch;
}

bool SimulatedLane::needs_polling() const { return world_.settings_.lanes_poll; }

World::World(const Script& script, const std::function<void(const std::string&)>& tell)
    : script_(script),
      settings_(script.settings),
      tell_(tell),
      memory_(static_cast<std::byte*>(
          std::aligned_alloc(4096, (std::size_t{settings_.slabs} * settings_.slab_bytes + 4095) / 4096 * 4096))),
      arena_(memory_, std::size_t{settings_.slabs} * settings_.slab_bytes, settings_.slab_bytes),
      backlog_(settings_.backlog, arena_, Now),
      devices_(std::vector<std::string>(settings_.devices, "simulated"), settings_.device_timeout, Now),
      spans_(verdict_, memory_, settings_.slab_bytes, settings_.slabs),
      threads_(settings_.threads),
      hardware_(settings_.devices),
      connections_(settings_.connections),
      fillers_(settings_.fillers) {
  g_now = kBegin;
  for (std::uint32_t i = 0; i < settings_.threads; ++i) {
    Thread& thread = threads_[i];
    std::vector<std::unique_ptr<server::Lane>> lanes;
    for (std::uint32_t device = 0; device < settings_.devices; ++device) {
      auto simulated = std::make_unique<SimulatedLane>(*this, i, device);
      thread.lanes.push_back(simulated.get());
      auto watched = std::make_unique<server::WatchedLane>(std::move(simulated), device, devices_);
      thread.watched.push_back(watched.get());
      lanes.push_back(std::move(watched));
    }
    thread.lane = lanes.size() == 1
                      ? std::move(lanes[0])
                      : std::make_unique<server::LeastLoadedLane>(std::move(lanes), i % settings_.devices, devices_);
    server::Batcher::Options options = settings_.batcher;
    options.home = i;
    thread.batcher = std::make_unique<server::Batcher>(
        options, arena_, backlog_, *thread.lane, recorder_, [this, i] { Wake(i, g_now + Nanoseconds(1000)); }, Now);
    thread.admission = std::make_unique<server::AdmissionQueue>(settings_.admission, *thread.batcher, Now);
  }
}

World::~World() {
  // Devices that hang still have theirs.
  if (devices_.lost() == 0) std::free(memory_);
}

void World::Push(EventKind kind, TimePoint at, std::uint32_t index, void* what) {
  events_.push({at, order_++, kind, index, what});
}

void World::Wake(std::uint32_t thread, TimePoint at) {
  Thread& woken = threads_[thread];
  at = std::max(at, woken.stands_still_until);
  if (at >= woken.turn_at) return;
  woken.turn_at = at;
  Push(EventKind::kTurn, at, thread);
}

void World::Arrive(const Action& action) {
  const std::uint32_t index = action.connection % settings_.threads;
  Thread& thread = threads_[index];
  if (draining_) return;  // refused at the door
  Connection& connection = connections_[action.connection];
  std::unique_ptr<Request> made;
  if (thread.spare.empty()) {
    made = std::make_unique<Request>(*this, index);
  } else {
    made = std::move(thread.spare.back());
    thread.spare.pop_back();
  }
  Request* const request = made.release();
  request->Begin(action, &connection);
  // Where the transport knows nothing of the connection any more there is no share.
  if (action.id % 61 != 0) request->share = connection.share;
  request->is_alone = connection.requests.empty() && request->share != nullptr;
  request->place = static_cast<std::uint32_t>(connection.requests.size());
  connection.requests.push_back(request);
  request->copied_before = thread.copied;
  request->ahead = thread.arrivals - thread.settled;
  ++thread.arrivals;
  ++arrived_;
  Note(3, action.id, index, "request #", action.id, " arrives on thread ", index);
  thread.arrived.push_back(request);
  if (action.leaves_after.count() > 0) Push(EventKind::kLeaves, g_now + action.leaves_after, action.id, request);
  Wake(index, g_now + Nanoseconds(500));
}

void World::HangUp(std::uint32_t index) {
  Connection& connection = connections_[index];
  Note(4, index, connection.requests.size(), "connection ", index, " hangs up");
  for (Request* request : connection.requests) {
    request->Leave();
    request->Forget();
  }
  connection.requests.clear();
  connection.share = std::make_shared<server::ConnectionShare>();
}

void World::BeginDrain() {
  if (draining_) return;
  draining_ = true;
  Note(5, 0, 0, "drain");
  Push(EventKind::kStopBacklog, g_now + settings_.drain_timeout);
}

void World::Act(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kRequest:
      return Arrive(action);
    case Action::Kind::kHangUp:
      return HangUp(action.connection);
    case Action::Kind::kFail:
      Note(6, action.device, 0, "device ", action.device, " will fail");
      must_watch_ = device_trouble_ = hardware_[action.device].fails = true;
      return;
    case Action::Kind::kHang:
      Note(7, action.device, 0, "device ", action.device, " will hang");
      must_watch_ = device_trouble_ = hardware_[action.device].hangs = true;
      return;
    case Action::Kind::kPause: {
      Note(8, action.thread, 0, "thread ", action.thread, " stands still");
      Thread& thread = threads_[action.thread];
      thread.stands_still_until = g_now + action.span;
      must_watch_ = true;
      if (thread.turn_at != server::kNoDeadline && thread.turn_at < thread.stands_still_until) {
        thread.turn_at = server::kNoDeadline;
        Wake(action.thread, thread.stands_still_until);
      }
      return;
    }
    case Action::Kind::kDrain:
      return BeginDrain();
  }
}

bool World::Progress(Thread& thread) {
  const bool finished = thread.batcher->Poll();
  return (thread.admission->may_admit() && thread.admission->AdmitWaiting(g_now)) || finished;
}

// As QueueThread::Run, from one sleep to the next.
void World::Turn(std::uint32_t index) {
  Thread& thread = threads_[index];
  thread.turn_at = server::kNoDeadline;
  running_thread_ = index;
  ++thread.turns;
  Random random(script_.seed, kTurn, thread.turns << 8 | index);
  const std::uint32_t batches_before = batches_;
  const std::size_t arrived_now = thread.arrived.size();
  std::vector<Request*> arrived;
  arrived.swap(thread.arrived);
  for (Request* request : arrived) {
    const auto kind =
        request->action().streamed ? server::AdmissionQueue::Kind::kStreamed : server::AdmissionQueue::Kind::kUnary;
    const std::shared_ptr<server::ConnectionShare> share = request->share;
    thread.admission->Submit(request, share.get(), kind, g_now);
    verdict_.Expect(share == nullptr || settings_.admission.in_flight_bytes == 0 ||
                        share->in_flight_bytes <= settings_.admission.in_flight_bytes,
                    "limits: a connection holds more bytes than it may");
    g_now += Nanoseconds(random.Below(300));
    Progress(thread);
    if (thread.batcher->MustFlushEarly()) thread.batcher->Flush(g_now);
  }
  arrived.clear();
  arrived.swap(thread.arrived);
  Progress(thread);
  thread.batcher->Flush(g_now);
  const bool again = Progress(thread);
  running_thread_ = UINT32_MAX;
  if (devices_.lost() != losses_) {
    losses_ = devices_.lost();
    Push(EventKind::kTest, g_now + Nanoseconds(random.Below(2'000'000)));
  }
  verdict_.Expect(backlog_.queued_requests() <= settings_.backlog.max_requests &&
                      backlog_.queued_bytes() <= settings_.backlog.max_bytes,
                  "limits: the backlog has ", backlog_.queued_requests(), " requests and ", backlog_.queued_bytes(),
                  " bytes");
  PokeFillers();
  if (again) {
    thread.idle_turns = 0;
    return Wake(index, g_now + Nanoseconds(100 + random.Below(500)));
  }
  const bool idle = arrived_now == 0 && batches_ == batches_before;
  thread.idle_turns = idle ? thread.idle_turns + 1 : 0;
  verdict_.Expect(thread.idle_turns < kMostIdleTurns, "sleep: thread ", index, " has turned ", kMostIdleTurns,
                  " times for nothing");
  // Now it sleeps, unless it was woken meanwhile.
  if (settings_.batcher.max_queue_delay.count() == 0 && thread.turn_at == server::kNoDeadline) {
    verdict_.Expect(thread.batcher->in_flight() || thread.placed == 0, "work-conserving: thread ", index,
                    " sleeps with an idle lane and ", thread.placed, " requests in batches");
  }
  TimePoint next = thread.batcher->next_flush();
  if (settings_.lanes_poll) {
    for (const SimulatedLane* lane : thread.lanes) next = std::min(next, lane->due());
  }
  // Batches that wait for a device's test, or on devices that hang.
  if (devices_.lost() > 0 && thread.batcher->needs_polling()) next = std::min(next, g_now + milliseconds(1));
  if (next != server::kNoDeadline) Wake(index, std::max(next, g_now + Nanoseconds(100)));
}

// Backlog threads that have nothing to do look at the queue.
void World::PokeFillers() {
  const std::uint64_t queued = backlog_.queued_requests();
  if (queued == 0) return;
  // Nothing came, nothing was freed, and it is not time yet.
  if (queued == looked_at_queued_ && arena_.slabs_used() >= looked_at_used_ && g_now < looks_again_at_ && !stopped_)
    return;
  for (std::uint32_t i = 0; i < fillers_.size(); ++i) {
    if (fillers_[i].taken.has_value()) continue;
    server::Backlog::Taken taken;
    TimePoint next;
    if (!backlog_.TryTake(&taken, &next)) {
      looked_at_queued_ = backlog_.queued_requests();
      looked_at_used_ = arena_.slabs_used();
      looks_again_at_ = next;
      if (next != server::kNoDeadline && next < fillers_at_) {
        fillers_at_ = std::max(next, g_now + Nanoseconds(1));
        Push(EventKind::kFiller, fillers_at_);
      }
      return;
    }
    Note(9, i, taken.failed.size(), "filler ", i, taken.request != nullptr ? " takes a request" : " takes failures");
    Random random(script_.seed, kCopy, order_);
    fillers_[i].taken = std::move(taken);
    Push(EventKind::kCarry, g_now + Nanoseconds(random.Below(30'000)), i);
  }
}

void World::WatchDevices() {
  if (sweeping_ || !must_watch_) return;
  sweeping_ = true;
  Push(EventKind::kSweep, g_now + milliseconds(1));
}

// As DeviceGroup::Sweep, while there is something to watch.
void World::Sweep() {
  sweeping_ = false;
  bool running = false;
  for (std::uint32_t i = 0; i < settings_.threads; ++i) {
    running = running || threads_[i].batcher->in_flight();
    for (server::WatchedLane* lane : threads_[i].watched) {
      if (lane->CheckOverdue(g_now)) Wake(i, g_now + Nanoseconds(1000));
    }
  }
  // No device is left, or what the lost ones may still write leaves no room: the process is to be replaced.
  const std::uint64_t room =
      devices_.lost() == 0 ? arena_.bytes_total() : devices_.kept().LargestRun(memory_, arena_.bytes_total());
  if (devices_.lost() == devices_.count() || room < arena_.bytes_total() / 2 + 2 * settings_.slab_bytes) BeginDrain();
  if (running || arrived_ > completed_) WatchDevices();
}

void World::Happen(const Event& event) {
  g_now = std::max(g_now, event.at);
  switch (event.kind) {
    case EventKind::kTurn:
      if (threads_[event.index].turn_at == event.at) Turn(event.index);
      return;
    case EventKind::kLaneDone:
      return Wake(event.index, g_now + Nanoseconds(1000));
    case EventKind::kFiller:
      if (event.at == fillers_at_) fillers_at_ = server::kNoDeadline;
      looks_again_at_ = g_now;
      return PokeFillers();
    case EventKind::kCarry: {
      server::Backlog::Taken taken = std::move(*fillers_[event.index].taken);
      fillers_[event.index].taken.reset();
      backlog_.CarryOut(std::move(taken));
      return PokeFillers();
    }
    case EventKind::kSent:
      Sent(static_cast<Request*>(event.what));
      return PokeFillers();
    case EventKind::kLeaves: {
      auto* const request = static_cast<Request*>(event.what);
      if (request->action().id == event.index && !request->completed()) request->Leave();
      return;
    }
    case EventKind::kSweep:
      return Sweep();
    case EventKind::kTest:
      while (const auto test = devices_.NextTest()) {
        const bool works = !hardware_[test->device].hangs && !hardware_[test->device].fails;
        Note(10, test->device, works ? 1 : 0, "device ", test->device, works ? " passes" : " fails", " its test");
        if (works) {
          devices_.Pass(*test);
        } else {
          devices_.Lose(test->device, "simulated: failed its test", server::Devices::Loss::kFailed);
        }
      }
      losses_ = devices_.lost();
      return;
    case EventKind::kLateWrite:
      std::fill_n(static_cast<std::byte*>(event.what), event.index, std::byte{0xEE});
      return;
    case EventKind::kStopBacklog:
      Note(11, 0, 0, "what waits for memory is failed");
      stopped_ = true;
      backlog_.Stop(/*fail=*/true);
      return PokeFillers();
  }
}

// What is before a request is work for the devices, for each of the others at most so long, and no waiting for memory.
void World::CheckEstimate(const Request& request, const absl::Status& status) {
  const std::string before_it = "may take ";
  const std::string message(status.message());
  const std::size_t at = message.find(before_it);
  if (at == std::string::npos || must_watch_) return;
  const long estimate_us = std::strtol(message.c_str() + at + before_it.size(), nullptr, 10);
  verdict_.Expect(std::chrono::microseconds(estimate_us) < kLongestWork * (arrived_ - completed_ + 8),
                  "estimates: request #", request.action().id, " was refused for ", estimate_us,
                  " us of work before it");
}

void World::Copied(Request& request, bool by_own_thread) {
  Thread& thread = threads_[request.thread()];
  const std::uint64_t since = thread.copied - request.copied_before;
  ++thread.copied;
  ++thread.settled;
  ++thread.placed;
  if (!by_own_thread) {
    // A small request that is alone passes a large one that waits for memory, but for its turns. (Of those that pass,
    // the first takes its room first: where the arena is only a few batches large, that may be long in coming.)
    const bool small = server::Batch::NeedOf(request.spec()).total() <= settings_.slab_bytes &&
                       arena_.bytes_total() >= 16 * settings_.batcher.batch.bytes;
    const Nanoseconds waited = g_now - std::max(request.arrived(), memory_was_short_at_);
    verdict_.Expect(!request.is_alone || !small || must_watch_ || waited < kLongestPassing, "head of line: request #",
                    request.action().id, ", small and its connection's only one, waited ", waited.count(),
                    " ns for memory while there was some");
    return;
  }
  verdict_.Expect(request.deadline() > g_now, "deadlines: request #", request.action().id,
                  " was taken although its deadline had passed");
  // Who has the only request of a connection waits for a few turns of the others at most, unless memory is short.
  if (settings_.admission.requests == 0 || !request.is_alone || arena_.slabs_used() * 2 > arena_.slabs_total()) return;
  const std::uint64_t overtaken_by = since > request.ahead ? since - request.ahead : 0;
  const std::uint64_t most = 8 * (std::uint64_t{settings_.connections} + 1) * (settings_.admission.requests + 1) *
                             settings_.admission.alone_factor;
  verdict_.Expect(overtaken_by <= most, "turns: request #", request.action().id, ", its connection's only one, was ",
                  "overtaken by ", overtaken_by, " later ones");
}

void World::CheckFate(const Request& request, const server::Answer& answer) {
  const Action& action = request.action();
  const auto allowed = [&] {
    switch (answer.status.code()) {
      case absl::StatusCode::kOk:
        return true;
      case absl::StatusCode::kDeadlineExceeded:
        return action.deadline.count() > 0 && request.deadline() <= g_now;
      case absl::StatusCode::kCancelled:
        return request.CallerLeft();
      case absl::StatusCode::kResourceExhausted:
        // What has passed already is DEADLINE_EXCEEDED, however much is before it.
        return !absl::StrContains(answer.status.message(), "the deadline leaves -");
      case absl::StatusCode::kUnavailable:
        return stopped_ || devices_.lost() == devices_.count();
      case absl::StatusCode::kInternal:
        return device_trouble_;
      case absl::StatusCode::kInvalidArgument:
        return server::Batch::NeedOf(request.spec()).total() > arena_.bytes_total();
      default:
        return false;
    }
  };
  verdict_.Expect(allowed(), "fates: request #", action.id, " was answered with ", answer.status.ToString());
}

void World::Completed(Request& request, const server::Answer& answer) {
  const Action& action = request.action();
  ++completed_;
  Note(12, action.id, static_cast<std::uint64_t>(answer.status.code()), "request #", action.id, " is answered with ",
       absl::StatusCodeToString(answer.status.code()));
  CheckFate(request, answer);
  CheckEstimate(request, answer.status);
  Thread& thread = threads_[request.thread()];
  if (request.copied()) {
    --thread.placed;
  } else {
    ++thread.settled;
  }
  if (absl::IsCancelled(answer.status)) ++dropped_;
  if (Connection* const connection = request.connection()) {
    connection->requests[request.place] = connection->requests.back();
    connection->requests[request.place]->place = request.place;
    connection->requests.pop_back();
  }
  if (!answer.status.ok()) return Recycle(&request);
  ++answered_;
  verdict_.Expect(answer.ran, "answers: request #", action.id, " is OK and did not run");
  const bool ran_alone = answer.batch_rows == static_cast<std::uint64_t>(request.spec().rows());
  verdict_.Expect(!request.CallerLeft() || !ran_alone || request.left_at() >= g_now - answer.execution,
                  "for nobody: request #", action.id, " was launched alone although its caller had left");
  if (request.spec().elements() == 0) {
    ++empty_;
    return Recycle(&request);
  }
  verdict_.Expect(request.IsAnswer(answer.output), "answers: request #", action.id, " was answered with wrong bytes");
  if (request.CallerLeft()) return Recycle(&request);
  // Large answers leave by reference and keep their slabs until they were sent.
  request.output = answer.output;
  request.held = *answer.span;
  spans_.Take(answer.output, request.spec().output_bytes(), spans_.UserAt(answer.output));
  Push(EventKind::kSent, g_now + action.reads_after, 0, &request);
}

void World::Sent(Request* request) {
  verdict_.Expect(request->IsAnswer(request->output), "answers: the answer of request #", request->action().id,
                  " changed before it was sent");
  spans_.GiveBack(request->output, request->spec().output_bytes());
  request->held.Reset();
  Recycle(request);
}

void World::Recycle(Request* request) {
  // The last of a connection that has gone.
  if (request->share != nullptr && request->share.use_count() == 1) CheckShare(*request->share);
  request->share.reset();
  threads_[request->thread()].spare.emplace_back(request);
}

void World::CheckShare(const server::ConnectionShare& share) {
  verdict_.Expect(share.batched() == 0 && share.in_flight_bytes == 0 && share.small.waiting.empty() &&
                      share.large.waiting.empty() && share.small.batched_bytes == 0 && share.large.batched_bytes == 0,
                  "bytes: a connection without requests counts ", share.batched(), " units and ", share.in_flight_bytes,
                  " bytes");
}

void World::CheckEnd() {
  verdict_.Expect(completed_ == arrived_, "exactly once: ", arrived_ - completed_, " of ", arrived_,
                  " requests were never answered");
  for (const Connection& connection : connections_) CheckShare(*connection.share);
  for (const Thread& thread : threads_) {
    verdict_.Expect(thread.batcher->pending() == 0 && thread.admission->waiting() == 0, "bytes: a thread counts ",
                    thread.batcher->pending(), " pending and ", thread.admission->waiting(), " waiting requests");
  }
  verdict_.Expect(backlog_.queued_requests() == 0 && backlog_.queued_bytes() == 0, "bytes: the backlog counts ",
                  backlog_.queued_requests(), " requests and ", backlog_.queued_bytes(), " bytes");
  if (devices_.lost() == 0) {
    verdict_.Expect(arena_.slabs_used() == 0, "spans: ", arena_.slabs_used(), " slabs were not given back");
  } else {
    verdict_.Expect(arena_.slabs_used() >= spans_.used(), "spans: what a lost device may still write was given back");
  }
  for (const server::Devices::View& device : devices_.views()) {
    verdict_.Expect(device.bytes_in_flight == 0, "bytes: a device counts ", device.bytes_in_flight, " in flight");
  }
  std::uint64_t counted = recorder_.batched + empty_ + dropped_;
  for (const std::uint64_t refused : recorder_.refused) counted += refused;
  verdict_.Expect(counted == completed_, "counters: they say ", counted, " requests and ", completed_, " there were");
}

Outcome World::Run() {
  Outcome outcome;
  // A world without an end: its threads turn round and round.
  const std::uint64_t most_events = 200 * script_.actions.size() + 1'000'000;
  std::size_t next = 0;
  while (!verdict_.failed()) {
    const bool has_action = next < script_.actions.size();
    if (!has_action && events_.empty()) break;
    if (has_action && (events_.empty() || kBegin + script_.actions[next].at <= events_.top().at)) {
      g_now = std::max(g_now, kBegin + script_.actions[next].at);
      Act(script_.actions[next++]);
    } else {
      const Event event = events_.top();
      events_.pop();
      Happen(event);
    }
    if (arena_.slabs_used() * 4 > arena_.slabs_total() * 3) memory_was_short_at_ = g_now;
    verdict_.Expect(++outcome.events < most_events, "the end: it does not come");
  }
  if (!verdict_.failed()) CheckEnd();
  outcome.violation = verdict_.first();
  outcome.trace = trace_;
  outcome.requests = arrived_;
  outcome.answered = answered_;
  return outcome;
}

}  // namespace

Outcome RunWorld(const Script& script, const std::function<void(const std::string&)>& tell) {
  // A world that went wrong is left as it is: what it has may be freed twice, and a bug is not worth a crash here.
  auto world = std::make_unique<World>(script, tell);
  Outcome outcome = world->Run();
  if (!outcome.violation.empty()) (void)world.release();
  return outcome;
}

}  // namespace softmax::simulation
