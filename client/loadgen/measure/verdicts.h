#pragma once

#include <string>

#include "client/loadgen/measure/run_result.h"

namespace softmax::client {

// Fills in generator.why and verdicts from all else.
void Judge(RunResult* result);

// Whether what else runs on the generator's machine competed with it.
bool MachineWasFull(const RunResult& result);

// Whether the run kept its SLO: enough of what was due (dropped, failed and late requests count against it).
bool KeepsSlo(const RunResult& result);

// "p99<=2ms".
std::string ServiceLevelText(const ServiceLevel& level);

}  // namespace softmax::client
