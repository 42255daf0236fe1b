#include "server/execution/executor.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <thread>

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

// One row 0, 1, 2, ...; its softmax is known in closed form: exp(i) (e - 1) / (e^n - 1).
class SelfTestWork final : public Work {
 public:
  static constexpr int kColumns = 16;
  SelfTestWork() {
    spec_.outer = 1;
    spec_.cols = kColumns;
    arrived_ = SteadyClock::now();
  }
  void CopyInput(std::byte* destination) override {
    auto* const row = reinterpret_cast<float*>(destination);
    for (int i = 0; i < kColumns; ++i) row[i] = static_cast<float>(i);
  }
  const std::uint32_t* lengths() const override { return nullptr; }
  void Complete(const Answer& answer) override {
    result = answer.status;
    if (!result.ok()) return;
    const auto* const row = reinterpret_cast<const float*>(answer.output);
    for (int i = 0; i < kColumns; ++i) {
      const double expected = std::exp(i) * std::expm1(1.0) / std::expm1(kColumns);
      if (!(std::abs(row[i] - expected) <= 1e-5 * expected)) {
        result = absl::InternalError(absl::StrCat("self-test: element ", i, " is ", row[i], "; expected ", expected));
        return;
      }
    }
  }
  absl::Status result;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) {
  switch (options.kind) {
    case BackendKind::kCuda:
      return CreateCuda(options);
    case BackendKind::kCpu:
      return CreateCpuExecutor(options, /*null=*/false);
    case BackendKind::kNull:
      return CreateCpuExecutor(options, /*null=*/true);
    case BackendKind::kAuto:
      break;
  }
  absl::StatusOr<std::unique_ptr<Executor>> cuda = CreateCuda(options);
  if (cuda.ok()) {
    spdlog::info("backend auto: cuda, because it found {}", absl::StrJoin((*cuda)->devices(), ", "));
    return cuda;
  }
  // A device that is there but cannot be used as configured is worth more than a silent, slower server.
  if (!absl::IsUnavailable(cuda.status())) return cuda;
  spdlog::info("backend auto: cpu, because {}", std::string(cuda.status().message()));
  return CreateCpuExecutor(options, /*null=*/false);
}

absl::Status SelfTest(Executor& executor, Lane& lane) {
  if (executor.name() == "null") return absl::OkStatus();
  constexpr std::uint64_t kBytes = 4096;
  Arena arena(executor.memory(), kBytes, kBytes);
  Batch batch;
  SelfTestWork work;
  const TimePoint now = SteadyClock::now();
  const Span span = arena.TryReserve(kBytes);
  batch.Open(work.spec().input_type, work.spec().output_type, SpanRef(&arena, span), Batch::NeedOf(work.spec()), now);
  batch.Add(&work, now);
  batch.Close(CloseReason::kIdle);
  batch.set_launched(now);
  lane.Launch(&batch);
  while (lane.Poll() == nullptr) {
    if (SteadyClock::now() - now > std::chrono::seconds(10)) {
      return absl::DeadlineExceededError("self-test: no answer from the device within 10 s");
    }
    std::this_thread::yield();
  }
  batch.Complete(batch.status, SteadyClock::now());
  return work.result;
}

}  // namespace softmax::server
