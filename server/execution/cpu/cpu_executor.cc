#include "server/execution/cpu/cpu_executor.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "kernels/cpu/softmax_cpu.h"
#include "server/execution/cpu/cpu_lane.h"
#include "server/execution/host_memory.h"
#include "server/execution/self_test.h"

namespace softmax::server {
namespace {

class NullLane final : public Lane {
 public:
  void Launch(Batch* batch) override {
    batch->status = absl::OkStatus();
    finished_.push_back(batch);
  }
  Batch* Poll() override { return TakeFront(finished_); }
  bool needs_polling() const override { return false; }

 private:
  std::deque<Batch*> finished_;
};

// None, unless a test has it read what was received as a device would: the CPU's kernels want a tensor in one piece.
std::size_t ReceiveBytes(const ExecutorOptions& options) {
  return options.faults != nullptr && options.faults->faults().gather ? options.receive_bytes : 0;
}

// One, unless a test has it pose as several.
std::uint32_t DeviceCount(const ExecutorOptions& options) {
  const std::uint64_t posed = options.faults == nullptr ? 0 : options.faults->faults().devices;
  return posed == 0 ? 1 : static_cast<std::uint32_t>(posed);
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(std::unique_ptr<HostMemory> memory, const ExecutorOptions& options, bool null)
      : Executor(Topology(std::vector<CoreSet>(DeviceCount(options)))),
        memory_(std::move(memory)),
        arena_bytes_(options.arena_bytes),
        null_(null),
        faults_(options.faults),
        devices_(DeviceCount(options)),
        receive_bytes_(ReceiveBytes(options)),
        pool_(null ? 0 : options.cpu_threads) {}

  std::string name() const override { return null_ ? "null" : "cpu"; }
  Prices prices() const override { return null_ ? kDevicePrices : kCpuPrices; }
  std::vector<std::string> devices() const override {
    const std::string name = null_
                                 ? "none (answers are not computed)"
                                 : absl::StrCat("cpu, ", kernels::cpu::TargetName(), ", ", pool_.threads(), " threads");
    return std::vector<std::string>(devices_, name);
  }
  std::byte* memory() const override { return memory_->data(); }
  std::byte* self_test_memory(std::uint32_t device) const override {
    return memory() + arena_bytes_ + device * kSelfTestBytes;
  }
  std::span<std::byte> receive_memory() const override {
    return {memory() + arena_bytes_ + devices_ * kSelfTestBytes, receive_bytes_};
  }
  absl::StatusOr<std::unique_ptr<Lane>> CreateLane(std::uint32_t /*device*/, std::function<void()> wake) override {
    if (null_) return std::make_unique<NullLane>();
    return std::make_unique<CpuLane>(pool_, std::move(wake), receive_bytes_ > 0);
  }

  std::uint64_t shared_page(int device) const override { return device == Region::kHost ? kSharedPageBytes : 0; }
  absl::StatusOr<SharedMemory> MakeShared(int /*device*/, std::uint64_t bytes) override {
    if (faults_ != nullptr && faults_->RefusesAllocation()) return absl::ResourceExhaustedError("out of memory");
    return MakeSharedPages(bytes);
  }

 private:
  const std::unique_ptr<HostMemory> memory_;
  const std::size_t arena_bytes_;
  const bool null_;
  FaultPlan* const faults_;
  const std::uint32_t devices_;
  const std::size_t receive_bytes_;
  CpuPool pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> CreateCpuExecutor(const ExecutorOptions& options, bool null) {
  if (options.faults != nullptr && !options.faults->faults().calls.empty()) {
    return absl::InvalidArgumentError("--fault=cuda:...: this backend makes no CUDA calls");
  }
  const bool refused = options.faults != nullptr && options.faults->RefusesAllocation();
  errno = ENOMEM;
  std::unique_ptr<HostMemory> memory =
      refused
          ? nullptr
          : HostMemory::Allocate(options.arena_bytes + DeviceCount(options) * kSelfTestBytes + ReceiveBytes(options));
  if (memory == nullptr) {
    const std::string reason = std::strerror(errno);  // before anything else that may fail
    return MemoryShortage("arena-bytes", "cannot have", options.arena_bytes, reason);
  }
  return std::make_unique<CpuExecutor>(std::move(memory), options, null);
}

}  // namespace softmax::server
