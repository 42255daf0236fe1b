#include "tests/simulation/world.h"

#include <algorithm>
#include <cstdlib>

#include "server/execution/least_loaded_lane.h"
#include "server/execution/topology.h"
#include "tests/simulation/world_state.h"

namespace softmax::simulation {

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
      unread_budget_(settings_.unread_bytes),
      threads_(settings_.threads),
      hardware_(settings_.devices),
      connections_(settings_.connections),
      fillers_(settings_.fillers) {
  g_now = kBegin;
  const server::Topology topology(std::vector<CoreSet>(settings_.devices));
  for (std::uint32_t i = 0; i < settings_.threads; ++i) {
    Thread& thread = threads_[i];
    std::vector<std::unique_ptr<server::Lane>> lanes;
    for (std::uint32_t device = 0; device < settings_.devices; ++device) {
      auto simulated = std::make_unique<SimulatedLane>(*this, i, device);
      thread.lanes.push_back(simulated.get());
      auto watched = std::make_unique<server::WatchedLane>(std::move(simulated), device, devices_);
      thread.watched.push_back(watched.get());
      if (settings_.devices == 1) {
        lanes.push_back(std::move(watched));
      } else {
        lanes.push_back(std::make_unique<ChosenLane>(*this, std::move(watched), device));
      }
    }
    thread.lane = lanes.size() == 1 ? std::move(lanes[0])
                                    : std::make_unique<server::LeastLoadedLane>(
                                          std::move(lanes), topology.DevicesFrom(i % settings_.devices), devices_);
    server::Batcher::Options options = settings_.batcher;
    options.home = i;
    thread.batcher = std::make_unique<server::Batcher>(
        options, arena_, backlog_, *thread.lane, recorder_, [this, i] { Wake(i, g_now + Nanoseconds(1000)); }, Now);
    thread.admission =
        std::make_unique<server::AdmissionQueue>(settings_.admission, *thread.batcher, unread_budget_, Now);
  }
}

World::~World() { std::free(memory_); }

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
  // Where unread answers are bounded, it may have to wait for its client.
  request->is_alone = connection.requests.empty() && request->share != nullptr && settings_.unread_bytes == UINT64_MAX;
  request->place = static_cast<std::uint32_t>(connection.requests.size());
  connection.requests.push_back(request);
  request->copied_before = thread.copied;
  request->ahead = thread.arrivals - thread.settled;
  ++thread.arrivals;
  ++arrived_;
  pending_work_ += request->fair_charge().work;
  largest_answer_ = std::max(largest_answer_, request->fair_charge().answer);
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
    case Action::Kind::kLose:
      Note(13, action.device, 0, "device ", action.device, " will be lost when it is chosen");
      must_watch_ = device_trouble_ = hardware_[action.device].lost_when_chosen = true;
      return;
    case Action::Kind::kPause: {
      Note(8, action.thread, 0, "thread ", action.thread, " stands still");
      Thread& thread = threads_[action.thread];
      thread.stands_still_until = g_now + action.span;
      must_watch_ = true;
      if (thread.turn_at != kNoDeadline && thread.turn_at < thread.stands_still_until) {
        thread.turn_at = kNoDeadline;
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
  thread.turn_at = kNoDeadline;
  running_thread_ = index;
  ++thread.turns;
  Random random(script_.seed, kTurn, thread.turns << 8 | index);
  const std::uint32_t batches_before = batches_;
  const std::size_t arrived_now = thread.arrived.size();
  thread.taken.swap(thread.arrived);
  for (Request* request : thread.taken) {
    const std::shared_ptr<server::ConnectionShare> share = request->share;
    thread.admission->Submit(request, share.get(), request->kind(), g_now);
    if (share != nullptr) CheckLimits(*share);
    g_now += Nanoseconds(random.Below(300));
    Progress(thread);
    if (thread.batcher->MustFlushEarly()) thread.batcher->Flush(g_now);
  }
  thread.taken.clear();
  Progress(thread);
  thread.batcher->Flush(g_now);
  thread.admission->LookAgain(g_now);
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
  const bool idle = arrived_now == 0 && batches_ == batches_before && thread.admission->next_look() == kNoDeadline;
  thread.idle_turns = idle ? thread.idle_turns + 1 : 0;
  verdict_.Expect(thread.idle_turns < kMostIdleTurns, "sleep: thread ", index, " has turned ", kMostIdleTurns,
                  " times for nothing");
  // Now it sleeps, unless it was woken meanwhile.
  if (settings_.batcher.max_queue_delay.count() == 0 && thread.turn_at == kNoDeadline) {
    verdict_.Expect(thread.batcher->in_flight() || thread.placed == 0, "work-conserving: thread ", index,
                    " sleeps with an idle lane and ", thread.placed, " requests in batches");
  }
  TimePoint next = std::min(thread.batcher->next_flush(), thread.admission->next_look());
  if (settings_.lanes_poll) {
    for (const SimulatedLane* lane : thread.lanes) next = std::min(next, lane->due());
  }
  // Batches that wait for a device's test, or on devices that hang.
  if (devices_.lost() > 0 && thread.batcher->needs_polling()) next = std::min(next, g_now + milliseconds(1));
  if (next != kNoDeadline) Wake(index, std::max(next, g_now + Nanoseconds(100)));
}

// Backlog threads that have nothing to do look at the queue.
void World::PokeFillers() {
  const std::uint64_t queued = backlog_.queued_requests();
  if (queued == 0) return;
  // Nothing came, nothing was freed, and it is not time yet.
  if (queued == looked_at_queued_ && arena_.slabs_used() >= looked_at_used_ && g_now < looks_again_at_ && !stopped_)
    return;
  for (std::uint32_t i = 0; i < fillers_.size(); ++i) {
    if (fillers_[i].has_value()) continue;
    server::Backlog::Taken taken;
    TimePoint next;
    if (!backlog_.TryTake(&taken, &next)) {
      looked_at_queued_ = backlog_.queued_requests();
      looked_at_used_ = arena_.slabs_used();
      looks_again_at_ = next;
      if (next != kNoDeadline && next < fillers_at_) {
        fillers_at_ = std::max(next, g_now + Nanoseconds(1));
        Push(EventKind::kFiller, fillers_at_);
      }
      return;
    }
    Note(9, i, taken.failed.size(), "filler ", i, taken.request != nullptr ? " takes a request" : " takes failures");
    Random random(script_.seed, kCopy, order_);
    fillers_[i] = std::move(taken);
    Push(EventKind::kCarry, g_now + Nanoseconds(random.Below(30'000)), i);
  }
}

void World::WatchDevices() {
  if (sweeping_ || !must_watch_) return;
  sweeping_ = true;
  Push(EventKind::kSweep, g_now + milliseconds(1));
}

// As DeviceGroup, which tests one device after another.
void World::BeginTest() {
  if (test_.has_value()) return;
  test_ = devices_.NextTest();
  Random random(script_.seed, kTesting, order_);
  if (test_.has_value()) Push(EventKind::kTested, g_now + Nanoseconds(random.Below(2'000'000)));
}

void World::EndTest() {
  const server::Devices::Test test = *test_;
  test_.reset();
  Device& device = hardware_[test.device];
  const bool works = !device.hangs && !device.fails;
  Note(10, test.device, works ? 1 : 0, "device ", test.device, works ? " passes" : " fails", " its test");
  if (works) {
    device.tested_at = test.losses;
    devices_.Pass(test);
  } else {
    devices_.Lose(test.device, "simulated: failed its test", server::Devices::Loss::kFailed);
  }
  BeginTest();
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
      if (event.at == fillers_at_) fillers_at_ = kNoDeadline;
      looks_again_at_ = g_now;
      return PokeFillers();
    case EventKind::kCarry: {
      std::optional<server::Backlog::Taken> taken;
      taken.swap(fillers_[event.index]);
      backlog_.CarryOut(*std::move(taken));
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
      return BeginTest();
    case EventKind::kTested:
      return EndTest();
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

Outcome RunWorld(const Script& script, const std::function<void(const std::string&)>& tell) {
  // A world that went wrong is left as it is: what it has may be freed twice, and a bug is not worth a crash here.
  auto world = std::make_unique<World>(script, tell);
  Outcome outcome = world->Run();
  if (!outcome.violation.empty()) (void)world.release();
  return outcome;
}

}  // namespace softmax::simulation
