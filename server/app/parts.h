#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/execution/devices.h"
#include "server/execution/faults.h"
#include "server/metrics/metrics.h"
#include "server/regions/region_server.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/health/health.h"
#include "server/rpc/queue/queue_thread.h"
#include "softmax/v1/softmax.pb.h"

// What server.cc puts together, beside the rooms' own parts.
namespace softmax::server {

// Reads --fault: a list with commas of what server/execution/faults.h names, or "none". INVALID_ARGUMENT names the item
// that is wrong.
absl::StatusOr<Faults> ParseFaults(const std::string& text);

// What GetServerInfo answers.
v1::GetServerInfoResponse ServerInfoFor(const Config& config, const std::string& backend,
                                        const std::vector<std::string>& devices);

// What a running server adds: what was lost, and why.
void DescribeDevices(const Devices& devices, v1::GetServerInfoResponse* info);

// What a scrape reads of a running server, which outlives it. `regions`: null without.
Gauges GaugesOf(ServiceState& state, const Devices& devices, const QueueThreads& queues, const RegionServer* regions,
                const Config& config);

// What the Open Inference Protocol has for probes and people over HTTP, as small JSON: /v2, /v2/health/live,
// /v2/health/ready and /v2/models/NAME. Tensors go over gRPC: /v2/models/NAME/infer says so. `health` outlives it.
HttpPages OipPages(const Health& health, std::string version);

}  // namespace softmax::server
