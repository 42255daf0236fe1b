#pragma once

#include "server/config/config.h"
#include "server/execution/devices.h"
#include "server/metrics/metrics.h"
#include "server/regions/region_server.h"
#include "server/rpc/calls/service_state.h"
#include "server/rpc/queue/queue_thread.h"

namespace softmax::server {

// What a scrape reads of a running server, which outlives it. `regions`: null without.
Gauges GaugesOf(ServiceState& state, const Devices& devices, const QueueThreads& queues, const RegionServer* regions,
                const Config& config);

}  // namespace softmax::server
