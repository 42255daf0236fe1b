#pragma once

#include "client/loadgen/options.h"

namespace softmax::client {

// Forks the sending processes, lets them run, prints the report. Returns the program's exit code.
// Must be called before the process has used gRPC or started a thread.
int RunLoad(const LoadOptions& options);

}  // namespace softmax::client
