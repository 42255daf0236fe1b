#include "server/execution/cuda/cuda_executor.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/softmax.h"
#include "server/execution/cuda/cuda_call.h"
#include "server/execution/cuda/cuda_lane.h"
#include "server/execution/cuda/cuda_shared_memory.h"
#include "server/execution/host_memory.h"
#include "server/execution/self_test.h"

namespace softmax::server {
namespace {

// Of each batch in flight, in the device's memory: larger requests are copied by the host.
constexpr std::size_t kStagingBytes = 32u << 20;

std::string DeviceName(int device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return "unknown";
  return absl::StrCat(properties.name, " (", properties.totalGlobalMem >> 20, " MiB, sm_", properties.major,
                      properties.minor, ")");
}

std::string PciAddress(int device) {
  char address[32] = "";  // "0000:C1:00.0"
  return cudaDeviceGetPCIBusId(address, sizeof(address), device) == cudaSuccess ? address : "";
}

Topology TopologyOf(const std::vector<int>& devices, const std::string& root) {
  std::vector<std::string> addresses;
  for (const int device : devices) addresses.push_back(PciAddress(device));
  return ReadTopology(root, addresses, CoresOfThread());
}

// The most scratch that a batch of this many segments may need, however many rows they have.
std::size_t ScratchFor(std::uint32_t segments) {
  float element = 0;
  kernels::Segment segment;
  segment.input = &element;
  segment.output = &element;
  segment.outer = 1 << 24;
  segment.cols = 1;
  segment.input_stride = segment.output_stride = 1;
  const std::vector<kernels::Segment> all(segments, segment);
  return kernels::SoftmaxBatchScratchBytes(all.data(), segments);
}

// Host memory that all devices read and write at the host's own addresses. In huge pages where that is to be had: the
// driver's own pinned memory lies in pages of 4 KiB, and the copies into it are 3 to 9 % slower.
class PinnedMemory {
 public:
  // Is called before the pages are fixed where they are; empty: nothing is.
  using Touch = std::function<void(std::byte* memory)>;

  // On failure null, with CUDA's error.
  static std::unique_ptr<PinnedMemory> Allocate(std::size_t bytes, const std::vector<int>& devices, FaultPlan* faults,
                                                const Touch& touch, cudaError_t* error);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  PinnedMemory() = default;

  std::unique_ptr<HostMemory> pages_;  // registered; null: the driver's own
  std::byte* data_ = nullptr;
};

std::unique_ptr<PinnedMemory> PinnedMemory::Allocate(std::size_t bytes, const std::vector<int>& devices,
                                                     FaultPlan* faults, const Touch& touch, cudaError_t* error) {
  std::unique_ptr<PinnedMemory> memory(new PinnedMemory);
  if (RegisteredPageBytes(devices) > 0) memory->pages_ = HostMemory::Allocate(bytes);
  if (memory->pages_ != nullptr && touch) touch(memory->pages_->data());
  // One name for both, so that a fault finds it.
  *error = MakeAllocation(faults, "cudaHostAlloc", [&] {
    if (memory->pages_ != nullptr) {
      return cudaHostRegister(memory->pages_->data(), bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    }
    void* data = nullptr;
    const cudaError_t result = cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    memory->data_ = static_cast<std::byte*>(data);
    return result;
  });
  if (*error != cudaSuccess) return nullptr;
  if (memory->pages_ != nullptr) memory->data_ = memory->pages_->data();
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  // After a device's failure these fail as well; the process is about to end.
  if (pages_ != nullptr) {
    (void)cudaHostUnregister(data_);
  } else {
    (void)cudaFreeHost(data_);
  }
}

class CudaExecutor final : public Executor {
 public:
  // `received`: null without receive_bytes.
  CudaExecutor(std::vector<int> devices, std::unique_ptr<PinnedMemory> memory, std::unique_ptr<PinnedMemory> received,
               Topology topology, const ExecutorOptions& options)
      : Executor(std::move(topology)),
        devices_(std::move(devices)),
        memory_(std::move(memory)),
        received_(std::move(received)),
        options_(options) {}

  std::string name() const override { return "cuda"; }
  std::vector<std::string> devices() const override {
    std::vector<std::string> names;
    for (int device : devices_) names.push_back(DeviceName(device));
    return names;
  }
  std::byte* memory() const override { return memory_->data(); }
  std::byte* self_test_memory(std::uint32_t device) const override {
    return memory_->data() + options_.arena_bytes + device * kSelfTestBytes;
  }
  std::span<std::byte> receive_memory() const override {
    if (received_ == nullptr) return {};
    return {received_->data(), options_.receive_bytes};
  }
  absl::StatusOr<std::unique_ptr<Lane>> CreateLane(std::uint32_t device, std::function<void()> /*wake*/) override {
    CudaLane::Options lane;
    lane.device = devices_[device];
    lane.max_in_flight = options_.max_in_flight;
    lane.scratch_bytes = ScratchFor(options_.max_batch_requests);
    lane.summary_scratch_bytes = kernels::SummaryScratchBytes(options_.max_batch_requests);
    lane.summary_bytes = SummaryBytesOn(lane.device);
    lane.staging_bytes = std::min(kStagingBytes, options_.receive_bytes);
    lane.faults = options_.faults;
    return CudaLane::Create(lane);
  }
  std::uint64_t shared_page(int device) const override {
    return device == Region::kHost ? RegisteredPageBytes(devices_) : SharedDevicePageBytes(OrdinalOf(device));
  }
  absl::StatusOr<SharedMemory> MakeShared(int device, std::uint64_t bytes) override {
    return device == Region::kHost ? MakeRegisteredPages(bytes, devices_, options_.faults)
                                   : MakeSharedDeviceMemory(OrdinalOf(device), bytes, options_.faults);
  }
  std::array<std::uint8_t, 16> device_uuid(int device) const override { return DeviceUuid(OrdinalOf(device)); }

 private:
  int OrdinalOf(int device) const { return devices_[static_cast<std::size_t>(device)]; }
  std::size_t SummaryBytesOn(int device) const {
    return cudaSetDevice(device) == cudaSuccess ? kernels::SummaryWorkspaceBytes(options_.max_input_bytes) : 0;
  }

  const std::vector<int> devices_;
  const std::unique_ptr<PinnedMemory> memory_;
  const std::unique_ptr<PinnedMemory> received_;
  const ExecutorOptions options_;
};

absl::Status Failure(const std::string& what, cudaError_t error) {
  return absl::UnavailableError(
      absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")"));
}

absl::Status CheckDevices(const std::vector<int>& wanted, const CudaProbe& probe) {
  for (int device : wanted) {
    if (device < 0 || device >= static_cast<int>(probe.devices.size())) {
      return absl::InvalidArgumentError(absl::StrCat("devices: ", device, " is not there; found ", probe.explanation));
    }
  }
  return absl::OkStatus();
}

absl::Status PrepareDevices(const std::vector<int>& devices, FaultPlan* faults) {
  for (int device : devices) {
    if (cudaError_t e = MakeCall(faults, "cudaSetDevice", [device] { return cudaSetDevice(device); })) {
      return Failure(absl::StrCat("cudaSetDevice(", device, ")"), e);
    }
    if (cudaError_t e = MakeCall(faults, "PrepareSoftmaxKernels", [] { return kernels::PrepareSoftmaxKernels(); })) {
      return Failure(absl::StrCat("loading the kernels on device ", device), e);
    }
  }
  return absl::OkStatus();
}

// The devices, or as many as a test wants to see, the same ones several times over.
std::vector<int> Pose(const std::vector<int>& devices, const FaultPlan* faults) {
  if (faults == nullptr || faults->faults().devices == 0) return devices;
  std::vector<int> posed;
  while (posed.size() < faults->faults().devices) posed.push_back(devices[posed.size() % devices.size()]);
  return posed;
}

// Each thread's home in the arena is touched on its cores first, which is where its pages then are. mbind(2) would say
// it more plainly, but the containers' usual seccomp profile refuses it.
void TouchHomes(std::byte* memory, const Topology& topology, const ExecutorOptions& options) {
  constexpr std::size_t kPage = 4096;
  for (std::uint32_t thread = 0; thread < options.queue_threads; ++thread) {
    const Topology::Home home = topology.HomeOf(thread);
    const std::size_t end = std::min(options.arena_bytes, (thread + 1) * options.home_bytes);
    if (home.cores.none()) continue;
    const VisitCores there(home.cores);
    for (std::size_t at = thread * options.home_bytes; at < end; at += kPage) memory[at] = std::byte{0};
  }
}

// `more` bytes on top of what the flag asks for.
absl::StatusOr<std::unique_ptr<PinnedMemory>> Pin(const char* flag, std::size_t bytes, std::size_t more,
                                                  const std::vector<int>& devices, FaultPlan* faults,
                                                  const PinnedMemory::Touch& touch = {}) {
  cudaError_t error = cudaSuccess;
  std::unique_ptr<PinnedMemory> memory = PinnedMemory::Allocate(bytes + more, devices, faults, touch, &error);
  if (memory == nullptr) return MemoryShortage(flag, "cannot pin", bytes, cudaGetErrorString(error));
  return memory;
}

}  // namespace

CudaProbe ProbeCuda(FaultPlan* faults) {
  CudaProbe probe;
  int count = 0;
  const cudaError_t error = MakeCall(faults, "cudaGetDeviceCount", [&count] { return cudaGetDeviceCount(&count); });
  if (error != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    probe.explanation =
        error == cudaSuccess ? "no CUDA device" : absl::StrCat("no usable CUDA device: ", cudaGetErrorString(error));
    return probe;
  }
  std::vector<std::string> names;
  for (int device = 0; device < count; ++device) {
    probe.devices.push_back(device);
    names.push_back(DeviceName(device));
  }
  probe.explanation = absl::StrCat(count, " CUDA device(s): ", absl::StrJoin(names, ", "));
  return probe;
}

absl::StatusOr<std::unique_ptr<Executor>> CreateCudaExecutor(const ExecutorOptions& options) {
  const CudaProbe probe = ProbeCuda(options.faults);
  if (probe.devices.empty()) return absl::UnavailableError(probe.explanation);
  if (absl::Status status = CheckDevices(options.devices, probe); !status.ok()) return status;
  const std::vector<int> chosen = options.devices.empty() ? probe.devices : options.devices;
  if (absl::Status status = PrepareDevices(chosen, options.faults); !status.ok()) return status;
  const std::vector<int> devices = Pose(chosen, options.faults);
  Topology topology = TopologyOf(devices, options.root);
  const auto touch = [&](std::byte* memory) { TouchHomes(memory, topology, options); };
  auto memory = Pin("arena-bytes", options.arena_bytes, devices.size() * kSelfTestBytes, chosen, options.faults, touch);
  if (!memory.ok()) return memory.status();
  std::unique_ptr<PinnedMemory> received;
  if (options.receive_bytes > 0) {
    auto pinned = Pin("receive-bytes", options.receive_bytes, 0, chosen, options.faults);
    if (!pinned.ok()) return pinned.status();
    received = std::move(*pinned);
  }
  return std::make_unique<CudaExecutor>(devices, std::move(*memory), std::move(received), std::move(topology), options);
}

}  // namespace softmax::server
