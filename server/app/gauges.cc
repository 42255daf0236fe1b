#include <array>
#include <string>
#include <utility>

#include "server/app/parts.h"
#include "server/base/receive_pool.h"
#include "server/rpc/guard/read_guard.h"

namespace softmax::server {
namespace {

// A family of one number.
template <typename Read>
Gauge One(const char* name, const char* help, Read read) {
  return {name, help, [read = std::move(read)]() -> Readings { return {{{}, static_cast<double>(read())}}; }};
}

// What is numbered, by the place in the list.
Reading Numbered(const char* label, std::size_t number, double value) {
  return {{{label, std::to_string(number)}}, value};
}

Readings Serving(const Devices& devices) {
  Readings readings;
  for (const Devices::View& view : devices.views()) {
    Reading& reading =
        readings.emplace_back(Numbered("device", readings.size(), view.state == Devices::State::kServing ? 1 : 0));
    reading.labels.emplace_back("name", view.name);
  }
  return readings;
}

Readings InFlight(const Devices& devices) {
  Readings readings;
  if (devices.count() < 2) return readings;  // nobody chooses, so nobody counts
  for (const Devices::View& view : devices.views()) {
    readings.push_back(Numbered("device", readings.size(), static_cast<double>(view.bytes_in_flight)));
  }
  return readings;
}

Readings Busy(const QueueThreads& queues) {
  Readings readings;
  for (const auto& queue : queues) {
    const Nanoseconds time = queue->CpuTime().value_or(Nanoseconds(0));
    readings.push_back(Numbered("thread", readings.size(), std::chrono::duration<double>(time).count()));
  }
  return readings;
}

Readings ConnectionsEnded(const RoomCounts& room) {
  using Verdict = FrameMeter::Verdict;
  Readings ended;
  const auto add = [&ended](const char* reason, std::uint64_t count) {
    ended.push_back({{{"reason", reason}}, static_cast<double>(count)});
  };
  for (const auto& [name, verdict] :
       {std::pair("calls", Verdict::kCalls), std::pair("frames", Verdict::kFrames),
        std::pair("headers", Verdict::kHeaders), std::pair("messages", Verdict::kMessages),
        std::pair("waiting", Verdict::kWaiting)}) {
    add(name, ReadGuard::ended(verdict));
  }
  for (const auto& [name, use] : {std::pair("silent", Use::kSilent), std::pair("handshake", Use::kHandshake),
                                  std::pair("unused", Use::kUnused), std::pair("idle", Use::kIdle)}) {
    add(name, room.made[static_cast<std::size_t>(use)].load());
  }
  add("no_place", room.refused.load());
  return ended;
}

// `count`: RegionBudget's regions or bytes, of each memory.
Readings ByMemory(const RegionBudget& budget, std::uint64_t (RegionBudget::*count)(int) const) {
  Readings readings;
  for (int device = Region::kHost; device < budget.devices(); ++device) {
    if (device != Region::kHost && budget.limits(device).all == 0) break;
    readings.push_back({{{"memory", device == Region::kHost ? "host" : std::to_string(device)}},
                        static_cast<double>((budget.*count)(device))});
  }
  return readings;
}

void AddRegions(const RegionServer& regions, Gauges* gauges) {
  const RegionBudget& budget = regions.budget();
  gauges->push_back({"softmax_regions", "Regions that are given out, by memory: host, or the device.",
                     [&budget] { return ByMemory(budget, &RegionBudget::regions); }});
  gauges->push_back({"softmax_region_bytes", "Bytes of these regions.",
                     [&budget] { return ByMemory(budget, &RegionBudget::bytes); }});
  gauges->push_back(One("softmax_region_connections", "Open connections to the socket of regions.",
                        [&regions] { return regions.connections(); }));
  gauges->push_back(
      {"softmax_regions_refused_total", "What clients of the socket of regions were refused, by reason.", [&regions] {
         Readings refused;
         for (std::size_t i = 0; i < RegionRefusal::kReasons; ++i) {
           const auto reason = static_cast<RegionRefusal::Reason>(i);
           refused.push_back({{{"reason", kRegionRefusals[i].name}}, static_cast<double>(regions.refused(reason))});
         }
         return refused;
       }});
}

void AddTraces(const SpanExporter& spans, Gauges* gauges) {
  gauges->push_back({"softmax_traced_requests_total",
                     "Requests that were to be sent to --trace-endpoint, by what became of them.", [&spans] {
                       Readings read;
                       for (const auto& [name, count] : spans.Outcomes()) read.push_back({{{"outcome", name}}, count});
                       return read;
                     }});
  gauges->push_back(One("softmax_trace_spans_rejected_total", "Spans that the endpoint says it has not kept.",
                        [&spans] { return spans.rejected_spans(); }));
}

}  // namespace

Gauges GaugesOf(ServiceState& state, const Devices& devices, const QueueThreads& queues, const RegionServer* regions,
                const Config& config) {
  Gauges gauges = {
      One("softmax_requests_in_flight", "Requests received and not yet answered.",
          [&state] { return state.requests_in_flight.Sum(); }),
      One("softmax_requests_queued", "Requests waiting for memory.",
          [&state] { return state.backlog.queued_requests(); }),
      One("softmax_queued_bytes", "Bytes of requests waiting for memory.",
          [&state] { return state.backlog.queued_bytes(); }),
      One("softmax_unread_bytes", "Bytes of answers outside the arena that clients have not read.",
          [&state] { return state.connections.unread_budget().used(); }),
      {"softmax_slabs",
       "Slabs of the arena: all there are, those in use, and of these the ones that wait for a client to read its "
       "answer. (The states are not disjoint: do not sum them.)",
       [&state, slab_bytes = config.slab_bytes]() -> Readings {
         const auto held_bytes = static_cast<std::uint64_t>(state.connections.held_bytes().Sum());
         const std::uint64_t held = (held_bytes + slab_bytes - 1) / slab_bytes;
         return {{{{"state", "total"}}, static_cast<double>(state.arena.slabs_total())},
                 {{{"state", "used"}}, static_cast<double>(state.arena.slabs_used())},
                 {{{"state", "held_by_answers"}}, static_cast<double>(held)}};
       }},
      {"softmax_receive_blocks",
       "Blocks of the memory that messages arrive in and a GPU reads (64 KiB each): all there are, and those in use.",
       []() -> Readings {
         return {{{{"state", "total"}}, static_cast<double>(ReceivePool::blocks_total())},
                 {{{"state", "used"}}, static_cast<double>(ReceivePool::blocks_used())}};
       }},
      One("softmax_connections", "Open client connections.", [&state] { return state.connections.size(); }),
      {"softmax_connections_ended_total",
       "Connections ended for what their clients sent: more calls, frames, headers or messages than any use needs. To "
       "make room while --max-connections were open: silent ones, those in a handshake, unused and idle ones. And "
       "newcomers that had no place.",
       [&state] { return ConnectionsEnded(state.connections.room_counts()); }},
      One("softmax_unsafe_testing", "1 when started with --unsafe-testing: answers may be wrong on purpose.",
          [unsafe = config.unsafe_testing] { return unsafe; }),
      One("softmax_degraded", "1 when a device was lost and the others serve on.",
          [&devices] { return devices.degraded(); }),
      {"softmax_device_serving",
       "1 when the device runs batches; 0 when it was lost, or is being tested because another one was.",
       [&devices] { return Serving(devices); }},
      {"softmax_device_in_flight_bytes",
       "Bytes of batches launched on the device and not finished, by which new batches choose theirs.",
       [&devices] { return InFlight(devices); }},
      {"softmax_queue_thread_busy_seconds_total",
       "CPU time of each queue thread, in seconds; a thread that polls a GPU counts as busy.",
       [&queues] { return Busy(queues); }},
      One("softmax_ready", "1 when the server takes requests.", [&state] { return state.health.ready(); })};
  if (regions != nullptr) AddRegions(*regions, &gauges);
  if (state.spans != nullptr) AddTraces(*state.spans, &gauges);
  return gauges;
}

}  // namespace softmax::server
