#pragma once

#include <memory>
#include <vector>

#include "server/config/config.h"
#include "server/execution/devices.h"
#include "server/metrics/metrics.h"
#include "server/rpc/queue/queue_thread.h"
#include "server/rpc/queue/service_state.h"

namespace softmax::server {

using QueueThreads = std::vector<std::unique_ptr<QueueThread>>;

// What a scrape reads of a running server, all of which outlives the sources.
GaugeSources GaugesOf(ServiceState& state, const Devices& devices, const QueueThreads& queues, const Config& config);

}  // namespace softmax::server
