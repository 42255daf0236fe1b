#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "common/wire/decode.h"
#include "server/batching/pending_request.h"
#include "server/regions/registry.h"

namespace softmax::server {

// Finds the regions that a decoded request names, and where in them its parts lie. NOT_FOUND: one is not there (any
// more). INVALID_ARGUMENT: a part does not lie inside its region, or they are of different devices. `regions`: null
// where there are none, and then no request names any. `thread`: the queue thread's number.
absl::Status FindPlaces(const DecodedRequest& request, const RegionRegistry* regions, std::uint32_t thread,
                        RegionPlaces* places);

}  // namespace softmax::server
