#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/softmax_client/connection_pool.h"
#include "client/softmax_client/counters.h"
#include "client/softmax_client/failure.h"
#include "client/softmax_client/known_server.h"
#include "client/softmax_client/options.h"
#include "client/softmax_client/region_pool.h"
#include "client/softmax_client/regions.h"
#include "client/softmax_client/retry.h"
#include "client/softmax_client/target.h"

namespace softmax::client {

// What all calls of one client share. Each part is thread-safe; outlives every call.
struct ClientCore {
  ClientCore(ClientOptions client_options, std::vector<Address> addresses);
  ~ClientCore();

  // What every attempt takes with it: how long it may take, who asks, and in which trace. INVALID_ARGUMENT: the
  // caller's token or trace cannot be sent, and so the attempt must not be made.
  absl::Status Prepare(grpc::ClientContext* context, std::optional<RetryPlan::Clock::time_point> deadline,
                       const TraceContext& trace = {}) const;

  // After an attempt: how it ended, as Explain says it. Looks what has become of its connection, too.
  absl::Status StatusOf(const Ended& ended, std::optional<std::chrono::nanoseconds> timeout);

  // An attempt that failed now, for RetryPlan.
  AttemptFailure FailureOf(absl::StatusCode code, std::optional<std::int64_t> pushback_ms);

  // GetServerInfo. What it says is remembered.
  absl::StatusOr<ServerInfo> AskServer(std::chrono::nanoseconds timeout, const RetryOptions& retry);

  // The path of the server's regions socket. FAILED_PRECONDITION: the target is not one server of this machine;
  // UNIMPLEMENTED: it shares no memory.
  absl::StatusOr<std::string> RegionsSocket();

  const ClientOptions options;
  ConnectionPool pool;
  RetryBudget budget;
  Counters counters;
  KnownServer server;
  Regions regions;
  std::shared_ptr<RegionPool> region_pool;  // null: kExplicit, or there can be none
};

}  // namespace softmax::client
