#pragma once

#include "client/cli/cli_options.h"

namespace softmax::client {

// Asks grpc.health.v1.Health/Check of every address, again and again for up to `options.wait` in all, and prints what
// each says. Returns the exit code: 0 all serving, 1 one is not serving or unknown, 3 one is unreachable.
int CheckHealth(const CliOptions& options);

}  // namespace softmax::client
