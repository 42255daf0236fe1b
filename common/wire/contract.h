#pragma once

#include <absl/status/status.h>

#include "common/wire/decode.h"
#include "common/wire/walk.h"

namespace softmax {

// Checks the rules of the proto's comments on a well-formed request, and fills in every field of `out` but `status`. No
// memory is taken before the last rule is met.
absl::Status ApplyContract(const RawRequest& raw, const WireLimits& limits, DecodedRequest* out);

}  // namespace softmax
