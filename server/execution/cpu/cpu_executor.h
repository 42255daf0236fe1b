#pragma once

#include "server/execution/executor.h"

namespace softmax::server {

// The CPU backend; with `null`, a backend that runs nothing (the output is whatever memory holds): what the path around
// the kernel costs, for measuring only.
absl::StatusOr<std::unique_ptr<Executor>> CreateCpuExecutor(const ExecutorOptions& options, bool null);

}  // namespace softmax::server
