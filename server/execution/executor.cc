#include "server/execution/executor.h"

#include <absl/strings/str_join.h>

#include "server/base/log.h"
#include "server/execution/cpu/cpu_executor.h"
#if SOFTMAX_WITH_CUDA
#include "server/execution/cuda/cuda_executor.h"
#endif

namespace softmax::server {
namespace {

absl::StatusOr<std::unique_ptr<Executor>> CreateCuda(const ExecutorOptions& options) {
#if SOFTMAX_WITH_CUDA
  return CreateCudaExecutor(options);
#else
  (void)options;
  return absl::UnavailableError("this binary was built without CUDA (SOFTMAX_CUDA=OFF)");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) {
  switch (options.backend) {
    case Backend::kCuda:
      return CreateCuda(options);
    case Backend::kCpu:
      return CreateCpuExecutor(options, /*null=*/false);
    case Backend::kNull:
      return CreateCpuExecutor(options, /*null=*/true);
    case Backend::kAuto:
      break;
  }
  absl::StatusOr<std::unique_ptr<Executor>> cuda = CreateCuda(options);
  if (cuda.ok()) {
    LogInfo("backend auto: cuda, because it found ", absl::StrJoin((*cuda)->devices(), ", "));
    return cuda;
  }
  // A device that is there but cannot be used as configured is worth more than a silent, slower server.
  if (!absl::IsUnavailable(cuda.status())) return cuda;
  LogInfo("backend auto: cpu, because ", cuda.status().message());
  return CreateCpuExecutor(options, /*null=*/false);
}

}  // namespace softmax::server
