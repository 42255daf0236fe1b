#pragma once

#include "client/loadgen/plan/options.h"
#include "client/loadgen/plan/workload.h"
#include "client/loadgen/send/shared_tally.h"

namespace softmax::client {

// The whole life of one sending process: connects, sends until the window ends, writes what it saw
// on the board. Called in a freshly forked child, before which the process must not have used gRPC.
void RunSendingProcess(const LoadOptions& options, const Workload& workload, const Board& board, int process);

}  // namespace softmax::client
