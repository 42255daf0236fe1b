#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "common/wire/decode.h"
#include "server/base/counters.h"
#include "server/batching/arena.h"
#include "server/batching/backlog.h"
#include "server/regions/registry.h"
#include "server/rpc/accept/connections.h"
#include "server/rpc/calls/slow_requests.h"
#include "server/rpc/health/health.h"
#include "server/rpc/queue/long_work.h"
#include "server/rpc/security/token_check.h"
#include "server/rpc/trace/span_exporter.h"
#include "softmax/v1/softmax.pb.h"

namespace softmax::server {

// What all calls of a server share. Outlives them.
struct ServiceState {
  ServiceState(Arena& arena_in, Backlog& backlog_in, Connections& connections_in)
      : arena(arena_in), backlog(backlog_in), connections(connections_in) {}

  Arena& arena;
  Backlog& backlog;
  Connections& connections;
  Health health;

  // Constant after start.
  WireLimits limits;
  std::uint32_t max_in_flight_per_stream = 256;
  v1::GetServerInfoResponse info;
  std::function<void(v1::GetServerInfoResponse*)> describe_devices;  // adds what changes; any thread
  const Tokens* tokens = nullptr;                                    // null: everybody may come in
  const RegionRegistry* regions = nullptr;                           // null: there are none
  SpanExporter* spans = nullptr;                                     // null: none are sent

  LongWork long_work{1};
  SlowRequests slow_requests;

  std::atomic<bool> draining{false};
  // Health watches end, which would otherwise hold up the server's shutdown.
  std::atomic<bool> ending_watches{false};
  // Calls that started and whose last operation has not ended; what a drain waits for.
  StripedCounter active_calls;
  StripedCounter requests_in_flight;
};

}  // namespace softmax::server
