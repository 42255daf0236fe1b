#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/batching/arena.h"
#include "server/batching/backlog.h"
#include "server/rpc/connections.h"
#include "server/rpc/health.h"
#include "server/rpc/slow_requests.h"
#include "server/rpc/token_check.h"
#include "server/rpc/wire.h"
#include "softmax/v1/softmax.grpc.pb.h"

namespace softmax::server {

// Softmax and SoftmaxStream as raw bytes (a tensor is never parsed into a message), the rest generated.
using AsyncService = v1::SoftmaxService::WithRawMethod_Softmax<v1::SoftmaxService::WithRawMethod_SoftmaxStream<
    v1::SoftmaxService::WithAsyncMethod_GetServerInfo<v1::SoftmaxService::Service>>>;

// What all calls of a server share. Outlives them.
struct ServiceState {
  ServiceState(Arena& arena_in, Backlog& backlog_in, Connections& connections_in)
      : arena(arena_in), backlog(backlog_in), connections(connections_in) {}

  Arena& arena;
  Backlog& backlog;
  Connections& connections;
  Health health;
  AsyncService service;
  grpc::health::v1::Health::AsyncService health_service;
  grpc::reflection::v1alpha::ServerReflection::AsyncService reflection_service;

  // Constant after start.
  WireLimits limits;
  std::uint32_t max_in_flight_per_stream = 256;
  v1::GetServerInfoResponse info;
  std::function<void(v1::GetServerInfoResponse*)> describe_devices;  // adds what changes; any thread
  bool reflection = true;
  const Tokens* tokens = nullptr;  // null: everybody may come in

  SlowRequests slow_requests;

  std::atomic<bool> draining{false};
  // Health watches end, which would otherwise hold up the server's shutdown.
  std::atomic<bool> ending_watches{false};
  // Calls that started and whose last operation has not ended; what a drain waits for.
  std::atomic<std::int64_t> active_calls{0};
  std::atomic<std::int64_t> requests_in_flight{0};
};

}  // namespace softmax::server
