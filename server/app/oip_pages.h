#pragma once

#include <string>

#include "server/metrics/metrics.h"
#include "server/rpc/health/health.h"

namespace softmax::server {

// What the Open Inference Protocol has for probes and people over HTTP, as small JSON: /v2, /v2/health/live,
// /v2/health/ready and /v2/models/NAME. Tensors go over gRPC: /v2/models/NAME/infer says so. `health` outlives it.
HttpPages OipPages(const Health& health, std::string version);

}  // namespace softmax::server
