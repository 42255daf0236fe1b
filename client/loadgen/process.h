#pragma once

#include "client/loadgen/board.h"
#include "client/loadgen/options.h"
#include "client/loadgen/workload.h"

namespace softmax::client {

// The whole life of one sending process: connects, sends until the window ends, writes what it saw
// on the board. Called in a freshly forked child, before which the process must not have used gRPC.
void RunSendingProcess(const LoadOptions& options, const Workload& workload, const Board& board, int process);

}  // namespace softmax::client
