#include "tests/simulation/script.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "tests/simulation/random.h"

namespace softmax::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

enum Stream : std::uint64_t { kSettings, kTraffic, kAction, kTrouble };

Settings MakeSettings(std::uint64_t seed) {
  Random random(seed, kSettings);
  Settings made;
  made.threads = static_cast<std::uint32_t>(random.Between(1, 4));
  made.devices = static_cast<std::uint32_t>(random.Chance(50) ? 1 : random.Between(2, 3));
  made.fillers = static_cast<std::uint32_t>(random.Between(1, 3));
  made.connections = static_cast<std::uint32_t>(random.Between(1, 12));
  made.slabs = static_cast<std::uint32_t>(random.Between(48, 320));
  made.lanes_poll = random.Chance(50);
  made.device_timeout = milliseconds(5);
  made.drain_timeout = milliseconds(random.Between(1, 20));
  made.latency = microseconds(random.Between(2, 60));
  made.batcher.batch.bytes = 1024u << random.Below(4);
  made.batcher.batch.requests = static_cast<std::uint32_t>(random.Between(2, 64));
  made.batcher.max_in_flight = static_cast<std::uint32_t>(random.Between(1, 3));
  if (random.Chance(20)) made.batcher.max_queue_delay = microseconds(random.Between(5, 50));
  made.batcher.inline_copy_bytes = 256u << random.Below(4);
  made.admission.requests = static_cast<std::uint32_t>(random.Chance(20) ? 0 : random.Between(1, 16));
  made.admission.work = 2048u << random.Below(4);
  if (random.Chance(30)) made.admission.in_flight_bytes = 4096u << random.Below(4);
  made.admission.shared_for = microseconds(100);
  if (random.Chance(30)) {
    made.admission.always_owed = 256;
    made.admission.unread_bytes = 2048u << random.Below(4);
    made.unread_bytes = made.admission.unread_bytes << random.Below(4);
  }
  made.backlog.threads = 0;  // they are the world's
  made.backlog.max_requests = static_cast<std::uint64_t>(random.Between(2, 64));
  made.backlog.max_bytes = 16384u << random.Below(4);
  made.backlog.patience = microseconds(20);
  made.backlog.turn = microseconds(100);
  made.backlog.overtaking = milliseconds(1);
  if (random.Chance(50)) made.backlog.max_wait = milliseconds(random.Between(2, 30));
  return made;
}

// How requests come for a while.
struct Phase {
  std::int64_t longest_gap_ns = 0;
  std::uint32_t greedy_percent = 0;  // of connection 0
  std::uint32_t large_percent = 0;
  std::uint32_t slow_reader_percent = 0;
};

Phase MakePhase(Random& random) {
  Phase phase;
  const std::int64_t gaps[] = {0, 500, 5000, 20000, 100000};
  phase.longest_gap_ns = gaps[random.Below(5)];
  phase.greedy_percent = random.Chance(30) ? 80 : 0;
  phase.large_percent = random.Chance(20) ? 20 : 1;
  phase.slow_reader_percent = random.Chance(30) ? 40 : 1;
  return phase;
}

void MakeRequest(const Settings& settings, const Phase& phase, Random& random, Action* action) {
  action->connection =
      random.Chance(phase.greedy_percent) ? 0 : static_cast<std::uint32_t>(random.Below(settings.connections));
  constexpr kernels::DataType kTypes[] = {kernels::DataType::kFloat32, kernels::DataType::kFloat16,
                                          kernels::DataType::kFloat64};
  action->input = random.Chance(70) ? kTypes[0] : kTypes[random.Below(3)];
  action->output = random.Chance(70) ? action->input : kTypes[random.Below(3)];
  action->operation = random.Chance(80) ? kernels::Operation::kSoftmax : kernels::Operation::kLogSoftmax;
  action->half_scale = random.Chance(10);
  action->has_lengths = random.Chance(10);
  action->streamed = random.Chance(30);
  action->rows = static_cast<std::uint32_t>(random.Between(1, 3));
  action->columns = static_cast<std::uint32_t>(random.Chance(1) ? 0 : random.Between(1, 16));
  if (random.Chance(phase.large_percent)) {
    const std::uint64_t arena = std::uint64_t{settings.slabs} * settings.slab_bytes;
    const std::uint64_t element = kernels::SizeOf(action->input) + kernels::SizeOf(action->output);
    // Half of the arena at most, as a server's configuration has it; now and then more than there is.
    const std::uint64_t most = arena / 2 / element;
    action->rows = 1;
    action->columns = static_cast<std::uint32_t>(random.Between(16, static_cast<std::int64_t>(most)));
    if (random.Chance(1)) action->columns = static_cast<std::uint32_t>(arena);
  }
  if (random.Chance(20)) action->deadline = Nanoseconds(random.Between(10'000, 5'000'000));
  if (random.Chance(5)) action->leaves_after = Nanoseconds(random.Between(1, 500'000));
  if (random.Chance(20)) {
    action->input_in_region = random.Chance(70);
    action->output_in_region = !action->input_in_region || random.Chance(70);
    action->in_place = random.Chance(20);
    if (random.Chance(30)) action->region_device = static_cast<std::int32_t>(random.Below(settings.devices));
  }
  action->reads_after = Nanoseconds(random.Chance(phase.slow_reader_percent) ? random.Between(100'000, 10'000'000)
                                                                             : random.Between(0, 30'000));
}

Action Trouble(Action::Kind kind, std::uint32_t id, std::int64_t within_ns, const Settings& settings, Random& random) {
  Action action;
  action.kind = kind;
  action.id = id;
  action.at = Nanoseconds(random.Between(0, within_ns));
  action.connection = static_cast<std::uint32_t>(random.Below(settings.connections));
  action.device = static_cast<std::uint32_t>(random.Below(settings.devices));
  action.thread = static_cast<std::uint32_t>(random.Below(settings.threads));
  action.span = microseconds(random.Between(10, 8000));
  return action;
}

}  // namespace

Script MakeScript(std::uint64_t seed, std::uint32_t requests) {
  Script script;
  script.seed = seed;
  script.settings = MakeSettings(seed);
  const Settings& settings = script.settings;
  Random traffic(seed, kTraffic);
  Phase phase;
  std::uint64_t phase_left = 0;
  Nanoseconds at{0};
  script.actions.reserve(requests + 16);
  for (std::uint32_t id = 0; id < requests; ++id) {
    if (phase_left-- == 0) {
      phase = MakePhase(traffic);
      phase_left = traffic.Below(400);
    }
    at += Nanoseconds(traffic.Between(0, phase.longest_gap_ns));
    Random random(seed, kAction, id);
    Action& action = script.actions.emplace_back();
    action.id = id;
    action.at = at;
    MakeRequest(settings, phase, random, &action);
  }
  Random trouble(seed, kTrouble);
  std::vector<Action> troubles;
  std::uint32_t id = requests;
  const auto add = [&](Action::Kind kind, std::uint32_t percent, std::int64_t most) {
    if (!trouble.Chance(percent)) return;
    for (std::int64_t count = trouble.Between(1, most); count > 0; --count) {
      troubles.push_back(Trouble(kind, id++, at.count(), settings, trouble));
    }
  };
  add(Action::Kind::kHangUp, 40, 10);
  add(Action::Kind::kFail, 10, 1);
  add(Action::Kind::kHang, 10, 1);
  add(Action::Kind::kPause, 20, 4);
  add(Action::Kind::kDrain, 30, 1);
  add(Action::Kind::kLose, 10, 1);
  // The requests come by time already.
  const auto earlier = [](const Action& a, const Action& b) { return a.at < b.at; };
  std::stable_sort(troubles.begin(), troubles.end(), earlier);
  script.actions.insert(script.actions.end(), troubles.begin(), troubles.end());
  std::inplace_merge(script.actions.begin(), script.actions.begin() + requests, script.actions.end(), earlier);
  return script;
}

std::string Describe(const Settings& s) {
  return absl::StrCat("threads ", s.threads, ", devices ", s.devices, ", fillers ", s.fillers, ", connections ",
                      s.connections, ", arena ", s.slabs, " x ", s.slab_bytes, ", batch ", s.batcher.batch.bytes,
                      " bytes ", s.batcher.batch.requests, " requests, in flight ", s.batcher.max_in_flight, ", delay ",
                      s.batcher.max_queue_delay.count(), " ns, inline ", s.batcher.inline_copy_bytes,
                      ", a connection's requests ", s.admission.requests, " and work ", s.admission.work, ", bytes ",
                      s.admission.in_flight_bytes, ", unread ", s.admission.unread_bytes, " of ", s.unread_bytes,
                      ", queue ", s.backlog.max_requests, " requests ", s.backlog.max_bytes, " bytes, waits ",
                      s.backlog.max_wait.count(), " ns, lanes ", s.lanes_poll ? "poll" : "wake");
}

std::string Describe(const Action& action) {
  const std::string head = absl::StrCat("#", action.id, " at ", action.at.count(), " ns: ");
  switch (action.kind) {
    case Action::Kind::kRequest:
      return absl::StrCat(head, action.streamed ? "streamed " : "", "request ", action.rows, " x ", action.columns,
                          " of ", kernels::SizeOf(action.input), " to ", kernels::SizeOf(action.output), " bytes",
                          action.input_in_region ? ", input in a region" : "",
                          action.output_in_region ? ", output in a region" : "", ", memory of ", action.region_device,
                          ", on connection ", action.connection, ", deadline ", action.deadline.count(),
                          ", leaves after ", action.leaves_after.count(), ", reads after ", action.reads_after.count());
    case Action::Kind::kHangUp:
      return absl::StrCat(head, "connection ", action.connection, " hangs up");
    case Action::Kind::kFail:
      return absl::StrCat(head, "device ", action.device, " fails");
    case Action::Kind::kHang:
      return absl::StrCat(head, "device ", action.device, " hangs");
    case Action::Kind::kLose:
      return absl::StrCat(head, "device ", action.device, " is lost when it is chosen");
    case Action::Kind::kPause:
      return absl::StrCat(head, "thread ", action.thread, " stands still for ", action.span.count(), " ns");
    case Action::Kind::kDrain:
      return head + "drain";
  }
  return head;
}

}  // namespace softmax::simulation
