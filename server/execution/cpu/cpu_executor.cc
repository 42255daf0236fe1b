#include "server/execution/cpu/cpu_executor.h"

#include <absl/strings/str_cat.h>

#include <deque>

#include "kernels/cpu/softmax_cpu.h"
#include "server/execution/cpu/cpu_lane.h"
#include "server/execution/cpu/cpu_pool.h"
#include "server/execution/host_memory.h"

namespace softmax::server {
namespace {

class NullLane final : public Lane {
 public:
  void Launch(Batch* batch) override {
    batch->status = absl::OkStatus();
    finished_.push_back(batch);
  }
  Batch* Poll() override {
    if (finished_.empty()) return nullptr;
    Batch* const batch = finished_.front();
    finished_.pop_front();
    return batch;
  }
  bool needs_polling() const override { return false; }

 private:
  std::deque<Batch*> finished_;
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::unique_ptr<HostMemory> memory, std::uint32_t threads, bool null)
      : memory_(std::move(memory)), null_(null), pool_(null ? 0 : threads) {}

  std::string name() const override { return null_ ? "null" : "cpu"; }
  std::vector<std::string> devices() const override {
    if (null_) return {"none (answers are not computed)"};
    return {absl::StrCat("cpu, ", kernels::cpu::TargetName(), ", ", pool_.threads(), " threads")};
  }
  std::byte* memory() const override { return memory_->data(); }
  absl::StatusOr<std::unique_ptr<Lane>> CreateLane(std::uint32_t /*index*/, std::function<void()> wake) override {
    if (null_) return std::make_unique<NullLane>();
    return std::make_unique<CpuLane>(pool_, std::move(wake));
  }
  absl::Status health() const override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<HostMemory> memory_;
  const bool null_;
  CpuPool pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> CreateCpuExecutor(const ExecutorOptions& options, bool null) {
  std::unique_ptr<HostMemory> memory = HostMemory::Allocate(options.arena_bytes);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("arena-bytes: no memory for ", options.arena_bytes, " bytes; set a smaller --arena-bytes"));
  }
  return std::make_unique<CpuExecutor>(std::move(memory), options.cpu_threads, null);
}

}  // namespace softmax::server
