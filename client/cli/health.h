#pragma once

#include "client/cli/options.h"

namespace softmax::client {

// Asks grpc.health.v1.Health/Check, again and again for up to `options.wait`, and prints what it
// says. Returns the exit code: 0 serving, 1 not serving or unknown, 3 unreachable.
int CheckHealth(const CliOptions& options);

}  // namespace softmax::client
