#pragma once

#include <string>

#include "client/loadgen/measure/run_result.h"
#include "client/loadgen/plan/workload.h"

namespace softmax::client {

// kUnavailable: processes or memory are not to be had. kStopped: interrupted before anything was sent. kFailed: it
// could not start. What there is to say was said.
enum class RunEnd { kMeasured, kUnreachable, kUnavailable, kStopped, kFailed };

// Forks the sending processes, lets them connect, warm up and measure. `result` is set when kMeasured is returned.
// Must be called before the process has used gRPC or started a thread; may be called again and again.
RunEnd RunOnce(const std::string& name, const LoadOptions& options, const Workload& workload, RunResult* result);

// "running 12.0 s  5000 requests/s  UNAVAILABLE 3": what the line says of the state of a board. `per_second` is given.
std::string ProgressText(const Board& board, std::int64_t now_ns, double per_second);

// From here on SIGINT and SIGTERM do not end the process but are remembered, and SIGPIPE is ignored.
void CatchInterrupts();
bool Interrupted();

}  // namespace softmax::client
