#include "server/app/gauges.h"

#include "server/base/receive_pool.h"
#include "server/rpc/guard/read_guard.h"

namespace softmax::server {
namespace {

std::vector<DeviceGauges> DeviceGaugesOf(const Devices& devices) {
  std::vector<DeviceGauges> gauges;
  for (const Devices::View& view : devices.views()) {
    gauges.push_back({view.name, view.state == Devices::State::kServing, static_cast<double>(view.bytes_in_flight)});
  }
  return gauges;
}

std::vector<std::pair<std::string, double>> ConnectionsEnded(const RoomCounts& room) {
  using Verdict = FrameMeter::Verdict;
  std::vector<std::pair<std::string, double>> ended;
  for (const auto& [name, verdict] :
       {std::pair("calls", Verdict::kCalls), std::pair("frames", Verdict::kFrames),
        std::pair("headers", Verdict::kHeaders), std::pair("messages", Verdict::kMessages),
        std::pair("waiting", Verdict::kWaiting)}) {
    ended.emplace_back(name, static_cast<double>(ReadGuard::ended(verdict)));
  }
  for (const auto& [name, use] : {std::pair("silent", Use::kSilent), std::pair("handshake", Use::kHandshake),
                                  std::pair("unused", Use::kUnused), std::pair("idle", Use::kIdle)}) {
    ended.emplace_back(name, static_cast<double>(room.made[static_cast<std::size_t>(use)].load()));
  }
  ended.emplace_back("no_place", static_cast<double>(room.refused.load()));
  return ended;
}

std::vector<RegionGauges> RegionGaugesOf(const RegionBudget& budget) {
  std::vector<RegionGauges> gauges;
  for (int device = Region::kHost; device < budget.devices(); ++device) {
    if (device != Region::kHost && budget.limits(device).all == 0) break;
    gauges.push_back({device == Region::kHost ? "host" : std::to_string(device),
                      static_cast<double>(budget.regions(device)), static_cast<double>(budget.bytes(device))});
  }
  return gauges;
}

}  // namespace

GaugeSources GaugesOf(ServiceState& state, const Devices& devices, const QueueThreads& queues,
                      const RegionServer* regions, const Config& config) {
  GaugeSources sources;
  sources.requests_in_flight = [&state] { return static_cast<double>(state.requests_in_flight.Sum()); };
  sources.requests_queued = [&state] { return static_cast<double>(state.backlog.queued_requests()); };
  sources.bytes_queued = [&state] { return static_cast<double>(state.backlog.queued_bytes()); };
  sources.bytes_unread = [&state] { return static_cast<double>(state.connections.unread_budget().used()); };
  sources.slabs_total = [&state] { return static_cast<double>(state.arena.slabs_total()); };
  sources.slabs_used = [&state] { return static_cast<double>(state.arena.slabs_used()); };
  sources.slabs_held_by_answers = [&state, slab_bytes = config.slab_bytes] {
    const std::uint64_t slabs =
        (static_cast<std::uint64_t>(state.connections.held_bytes().Sum()) + slab_bytes - 1) / slab_bytes;
    return static_cast<double>(slabs);
  };
  sources.receive_blocks_total = [] { return static_cast<double>(ReceivePool::blocks_total()); };
  sources.receive_blocks_used = [] { return static_cast<double>(ReceivePool::blocks_used()); };
  sources.connections = [&state] { return static_cast<double>(state.connections.size()); };
  sources.unsafe_testing = [unsafe = config.unsafe_testing] { return unsafe ? 1.0 : 0.0; };
  sources.degraded = [&devices] { return devices.degraded() ? 1.0 : 0.0; };
  sources.devices = [&devices] { return DeviceGaugesOf(devices); };
  sources.queue_threads_busy = [&queues] {
    std::vector<double> seconds;
    for (const auto& queue : queues) {
      seconds.push_back(std::chrono::duration<double>(queue->CpuTime().value_or(Nanoseconds(0))).count());
    }
    return seconds;
  };
  sources.connections_ended = [&state] { return ConnectionsEnded(state.connections.room_counts()); };
  if (regions != nullptr) {
    sources.regions = [regions] { return RegionGaugesOf(regions->budget()); };
    sources.region_connections = [regions] { return static_cast<double>(regions->connections()); };
    sources.regions_refused = [regions] {
      std::vector<std::pair<std::string, double>> refused;
      for (std::size_t i = 0; i < RegionRefusal::kReasons; ++i) {
        const auto reason = static_cast<RegionRefusal::Reason>(i);
        refused.emplace_back(kRegionRefusals[i].name, static_cast<double>(regions->refused(reason)));
      }
      return refused;
    };
  }
  if (const SpanExporter* const spans = state.spans) {
    sources.traced_requests = [spans] { return spans->Outcomes(); };
    sources.rejected_spans = [spans] { return spans->rejected_spans(); };
  }
  sources.ready = [&state] { return state.health.ready() ? 1.0 : 0.0; };
  return sources;
}

}  // namespace softmax::server
