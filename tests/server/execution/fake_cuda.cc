#include "tests/server/execution/fake_cuda.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/base/core_set.h"
#include "kernels/cpu/softmax_cpu.h"
#include "kernels/softmax.h"
#include "tests/server/execution/fake_driver.h"

struct CUstream_st {
  int device;
};

namespace softmax::testing::fake_cuda {
namespace {

struct Device {
  bool hangs = false;
  bool held = false;
  cudaError_t sticky = cudaSuccess;
  std::size_t launches = 0;
  std::size_t host_launches = 0;
  std::size_t shared_launches = 0;
  std::deque<std::function<void()>> waiting;
};

constexpr int kHost = -1;

struct Machine {
  std::mutex mu;
  std::vector<Device> devices;
  std::map<void*, int> allocated;  // and on which device
  std::set<void*> registered;
  bool takes_host_pointers = false;
  std::vector<std::string> host_allocations;
  std::size_t touched_bytes = 0;
};

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

thread_local int current = 0;
// As the runtime's: the last error of this thread, whatever device it was about.
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Told(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void ExpectNotWaitingFor(int device, const char* call) {
  std::lock_guard lock(machine().mu);
  for (std::size_t i = 0; i < machine().devices.size(); ++i) {
    if (device != kHost && device != static_cast<int>(i)) continue;
    if (machine().devices[i].hangs) ADD_FAILURE() << call << " waits for device " << i << ", which hangs, for ever";
  }
}

cudaError_t Allocate(void** pointer, std::size_t bytes, int device) {
  std::lock_guard lock(machine().mu);
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(*pointer, 0xa5, bytes);
  machine().allocated[*pointer] = device;
  return cudaSuccess;
}

cudaError_t Release(void* pointer, const char* call) {
  if (pointer == nullptr) return cudaSuccess;
  int device = 0;
  {
    std::lock_guard lock(machine().mu);
    const auto it = machine().allocated.find(pointer);
    if (it == machine().allocated.end()) {
      ADD_FAILURE() << call << " of what was not allocated";
      return cudaErrorInvalidValue;
    }
    device = it->second;
    machine().allocated.erase(it);
  }
  ExpectNotWaitingFor(device, call);
  std::free(pointer);
  return cudaSuccess;
}

}  // namespace

void Reset(int devices) {
  std::lock_guard lock(machine().mu);
  machine().devices.clear();
  machine().devices.resize(static_cast<std::size_t>(devices));
  machine().allocated.clear();
  machine().registered.clear();
  machine().takes_host_pointers = false;
  machine().host_allocations.clear();
  last_error = cudaSuccess;
}

void Hang(int device) {
  std::lock_guard lock(machine().mu);
  machine().devices[static_cast<std::size_t>(device)].hangs = true;
}

void TakeHostPointers(bool take) {
  std::lock_guard lock(machine().mu);
  machine().takes_host_pointers = take;
}

void HoldBack(int device) {
  std::lock_guard lock(machine().mu);
  machine().devices[static_cast<std::size_t>(device)].held = true;
}

void Finish(int device) {
  std::lock_guard lock(machine().mu);
  Device& on = machine().devices[static_cast<std::size_t>(device)];
  for (const auto& kernel : on.waiting) kernel();
  on.waiting.clear();
  on.held = false;
}

std::size_t Allocations() {
  std::lock_guard lock(machine().mu);
  return machine().allocated.size() + machine().registered.size() + DriverAllocations();
}

std::vector<std::string> CoresOfHostAllocations() {
  std::lock_guard lock(machine().mu);
  return machine().host_allocations;
}

std::size_t TouchedBytes() {
  std::lock_guard lock(machine().mu);
  return machine().touched_bytes;
}

std::size_t Launches(int device) {
  std::lock_guard lock(machine().mu);
  return machine().devices[static_cast<std::size_t>(device)].launches;
}

std::size_t HostLaunches(int device) {
  std::lock_guard lock(machine().mu);
  return machine().devices[static_cast<std::size_t>(device)].host_launches;
}

std::size_t SharedLaunches(int device) {
  std::lock_guard lock(machine().mu);
  return machine().devices[static_cast<std::size_t>(device)].shared_launches;
}

}  // namespace softmax::testing::fake_cuda

namespace fake = softmax::testing::fake_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  std::lock_guard lock(fake::machine().mu);
  *count = static_cast<int>(fake::machine().devices.size());
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  const std::string name = "Pretended GPU " + std::to_string(device);
  std::memcpy(properties->name, name.c_str(), name.size() + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int device) {
  std::snprintf(address, static_cast<std::size_t>(bytes), "0000:C%d:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  fake::current = device;
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void) { return std::exchange(fake::last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorOfSomeName";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "some error";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = new CUstream_st{fake::current};
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fake::ExpectNotWaitingFor(stream->device, "cudaStreamSynchronize");
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  std::lock_guard lock(fake::machine().mu);
  const fake::Device& device = fake::machine().devices[static_cast<std::size_t>(stream->device)];
  if (device.sticky != cudaSuccess) return fake::Told(device.sticky);
  return device.hangs || !device.waiting.empty() ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) { return fake::Allocate(pointer, bytes, fake::current); }
cudaError_t cudaFree(void* pointer) { return fake::Release(pointer, "cudaFree"); }
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned /*flags*/) {
  fake::machine().host_allocations.push_back(softmax::FormatCores(softmax::CoresOfThread()));
  return fake::Allocate(pointer, bytes, fake::kHost);
}
// Takes no pointers of registered memory unless told, so that all pinned memory comes from here.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  std::lock_guard lock(fake::machine().mu);
  *value = fake::machine().takes_host_pointers ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned /*flags*/) {
  constexpr std::size_t kPage = 4096;
  std::vector<unsigned char> pages(bytes / kPage);
  (void)mincore(pointer, pages.size() * kPage, pages.data());
  std::lock_guard lock(fake::machine().mu);
  fake::machine().touched_bytes = std::count(pages.begin(), pages.end(), 1) * kPage;
  return fake::machine().registered.insert(pointer).second ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* pointer) {
  fake::ExpectNotWaitingFor(fake::kHost, "cudaHostUnregister");
  std::lock_guard lock(fake::machine().mu);
  return fake::machine().registered.erase(pointer) == 1 ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}
cudaError_t cudaFreeHost(void* pointer) { return fake::Release(pointer, "cudaFreeHost"); }
cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  std::memset(pointer, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t /*stream*/) {
  return cudaMemset(pointer, value, bytes);
}

}  // extern "C"

namespace softmax::kernels {

std::size_t SoftmaxBatchScratchBytes(const Segment* /*segments*/, std::int64_t count, Placement /*placement*/) {
  return static_cast<std::size_t>(count) * 32;
}

std::size_t SummaryScratchBytes(std::int64_t count) { return static_cast<std::size_t>(count) * 32; }

std::size_t SummaryWorkspaceBytes(std::uint64_t input_bytes) { return input_bytes / 13; }

cudaError_t PrepareSoftmaxKernels() { return cudaSuccess; }

cudaError_t LaunchGather(const GatherPiece* pieces, std::int64_t count, void* destination, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  std::lock_guard lock(fake::machine().mu);
  EXPECT_EQ(stream->device, fake::current) << "a stream of another device";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(destination) % 256, 0u) << "rows would miss the boundaries";
  for (const GatherPiece* piece = pieces; piece != pieces + count; ++piece) {
    std::memcpy(static_cast<char*>(destination) + piece->offset, piece->source, piece->bytes);
  }
  return cudaSuccess;
}

namespace {

// What every launch does; `work` is the kernel's, and `input` where it reads first.
cudaError_t Launch(const void* input, void* scratch, std::size_t scratch_bytes, Completion completion,
                   cudaStream_t stream, Placement placement, const std::function<void()>& work) {
  std::memset(scratch, 0x5a, scratch_bytes);
  std::lock_guard lock(fake::machine().mu);
  // A launch reports what went wrong before it on this thread, too.
  if (fake::last_error != cudaSuccess) return std::exchange(fake::last_error, cudaSuccess);
  fake::Device& device = fake::machine().devices[static_cast<std::size_t>(fake::current)];
  EXPECT_EQ(stream->device, fake::current) << "a stream of another device";
  EXPECT_EQ(completion.flag != nullptr, completion.workspace != nullptr) << "the last block is told by it";
  if (device.sticky != cudaSuccess) return device.sticky;
  ++device.launches;
  device.host_launches += placement == Placement::kHost ? 1 : 0;
  device.shared_launches += placement == Placement::kSharedHost ? 1 : 0;
  const auto kernel = [work, completion] {
    work();
    if (completion.flag != nullptr) __atomic_store_n(completion.flag, completion.value, __ATOMIC_RELEASE);
  };
  if (reinterpret_cast<std::uintptr_t>(input) < 65536) {
    device.sticky = cudaErrorIllegalAddress;
  } else if (device.held) {
    device.waiting.push_back(kernel);
  } else if (!device.hangs) {
    kernel();
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t LaunchSoftmaxBatch(DataType input_type, DataType output_type, const Segment* segments, std::int64_t count,
                               void* scratch, std::size_t scratch_bytes, Completion completion, cudaStream_t stream,
                               Placement placement) {
  return Launch(segments[0].input, scratch, scratch_bytes, completion, stream, placement,
                [=, request = std::vector<Segment>(segments, segments + count)] {
                  for (const Segment& segment : request) {
                    cpu::Softmax(input_type, output_type, segment, 0, segment.outer * segment.inner);
                  }
                });
}

cudaError_t LaunchSummaries(DataType input_type, DataType output_type, const SummarySegment* segments,
                            std::int64_t count, void* scratch, std::size_t scratch_bytes, void* workspace,
                            std::size_t workspace_bytes, Completion completion, cudaStream_t stream) {
  EXPECT_TRUE(workspace != nullptr && workspace_bytes > 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % 16, 0u);
  return Launch(segments[0].rows.input, scratch, scratch_bytes, completion, stream, Placement::kDevice,
                [=, request = std::vector<SummarySegment>(segments, segments + count)] {
                  for (const SummarySegment& segment : request) {
                    cpu::Summarize(input_type, output_type, segment, 0, segment.rows.outer * segment.rows.inner);
                  }
                });
}

}  // namespace softmax::kernels
