#include "server/execution/cuda/cuda_shared_memory.h"

#include <absl/strings/str_cat.h>
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "server/execution/cuda/cuda_call.h"
#include "server/execution/host_memory.h"

namespace softmax::server {
namespace {

// The driver's functions, found by the runtime: nothing is linked against a driver.
struct Driver {
  decltype(&cuDeviceGetAttribute) device_get_attribute;
  decltype(&cuMemGetAllocationGranularity) get_granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemExportToShareableHandle) export_handle;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free_address;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

template <typename Function>
bool Find(const char* name, Function* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 11020;  // of the driver's interface in which all of them are there
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess) (void)cudaGetLastError();
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return false;
  *function = reinterpret_cast<Function>(found);
  return true;
}

const Driver* FindDriver() {
  static const std::optional<Driver> found = []() -> std::optional<Driver> {
    Driver driver{};
    const bool all = Find("cuDeviceGetAttribute", &driver.device_get_attribute) &&
                     Find("cuMemGetAllocationGranularity", &driver.get_granularity) &&
                     Find("cuMemCreate", &driver.create) && Find("cuMemRelease", &driver.release) &&
                     Find("cuMemExportToShareableHandle", &driver.export_handle) &&
                     Find("cuMemAddressReserve", &driver.reserve) && Find("cuMemAddressFree", &driver.free_address) &&
                     Find("cuMemMap", &driver.map) && Find("cuMemUnmap", &driver.unmap) &&
                     Find("cuMemSetAccess", &driver.set_access);
    return all ? std::optional(driver) : std::nullopt;
  }();
  return found ? &*found : nullptr;
}

CUmemAllocationProp PropertiesOf(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

// Both number errors alike.
absl::Status SharingFailure(const char* call, int error) {
  return absl::ResourceExhaustedError(absl::StrCat(call, ": ", cudaGetErrorString(static_cast<cudaError_t>(error))));
}

// What is there of one allocation while it is made.
struct Mapping {
  const Driver* driver;
  std::uint64_t bytes;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  bool is_mapped = false;
  int descriptor = -1;

  void Undo() const {
    if (descriptor >= 0) close(descriptor);
    if (is_mapped) (void)driver->unmap(address, bytes);
    if (address != 0) (void)driver->free_address(address, bytes);
    if (handle != 0) (void)driver->release(handle);
  }
};

// What others had there before is nobody's business.
cudaError_t Clear(CUdeviceptr address, std::uint64_t bytes) {
  cudaStream_t stream = nullptr;
  if (cudaError_t e = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) return e;
  cudaError_t error = cudaMemsetAsync(reinterpret_cast<void*>(address), 0, bytes, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  (void)cudaStreamDestroy(stream);
  return error;
}

absl::Status Make(int device, FaultPlan* faults, Mapping* mapping) {
  const Driver& driver = *mapping->driver;
  const CUmemAllocationProp properties = PropertiesOf(device);
  const cudaError_t created = MakeAllocation(faults, "cuMemCreate", [&] {
    return static_cast<cudaError_t>(driver.create(&mapping->handle, mapping->bytes, &properties, 0));
  });
  if (created != cudaSuccess) return SharingFailure("cuMemCreate", created);
  if (CUresult e = driver.reserve(&mapping->address, mapping->bytes, 0, 0, 0)) {
    return SharingFailure("cuMemAddressReserve", e);
  }
  if (CUresult e = driver.map(mapping->address, mapping->bytes, 0, mapping->handle, 0))
    return SharingFailure("cuMemMap", e);
  mapping->is_mapped = true;
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (CUresult e = driver.set_access(mapping->address, mapping->bytes, &access, 1)) {
    return SharingFailure("cuMemSetAccess", e);
  }
  if (cudaError_t e = Clear(mapping->address, mapping->bytes)) return SharingFailure("cudaMemsetAsync", e);
  if (CUresult e =
          driver.export_handle(&mapping->descriptor, mapping->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)) {
    mapping->descriptor = -1;
    return SharingFailure("cuMemExportToShareableHandle", e);
  }
  return absl::OkStatus();
}

// Whether kernels may use the host's address of registered memory, as they may of memory that the driver allocated.
bool TakesHostPointers(int device) {
  int takes = 0;
  return cudaDeviceGetAttribute(&takes, cudaDevAttrCanUseHostPointerForRegisteredMem, device) == cudaSuccess &&
         takes != 0;
}

}  // namespace

std::uint64_t RegisteredPageBytes(const std::vector<int>& devices) {
  return std::all_of(devices.begin(), devices.end(), &TakesHostPointers) ? kSharedPageBytes : 0;
}

absl::StatusOr<SharedMemory> MakeRegisteredPages(std::uint64_t bytes, const std::vector<int>& devices,
                                                 FaultPlan* faults) {
  absl::StatusOr<SharedMemory> memory = MakeSharedPages(bytes);
  if (!memory.ok()) return memory;
  const cudaError_t error = MakeAllocation(faults, "cudaHostRegister", [&] {
    if (cudaError_t e = cudaSetDevice(devices.front())) return e;
    return cudaHostRegister(memory->data, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
  });
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    close(memory->descriptor);
    memory->free();
    return SharingFailure("cudaHostRegister", error);
  }
  memory->free = [data = memory->data, free = std::move(memory->free)] {
    // After a device's failure this fails as well: then devices may still have the pages, and they stay.
    if (cudaHostUnregister(data) == cudaSuccess) free();
  };
  return memory;
}

std::uint64_t SharedDevicePageBytes(int device) {
  const Driver* const driver = FindDriver();
  int shares = 0;
  if (driver == nullptr ||
      driver->device_get_attribute(&shares, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) !=
          CUDA_SUCCESS ||
      shares == 0) {
    return 0;
  }
  const CUmemAllocationProp properties = PropertiesOf(device);
  std::size_t bytes = 0;
  return driver->get_granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS ? bytes : 0;
}

absl::StatusOr<SharedMemory> MakeSharedDeviceMemory(int device, std::uint64_t bytes, FaultPlan* faults) {
  if (cudaError_t e = cudaSetDevice(device)) return SharingFailure("cudaSetDevice", e);
  Mapping mapping{FindDriver(), bytes};
  if (absl::Status status = Make(device, faults, &mapping); !status.ok()) {
    mapping.Undo();
    return status;
  }
  SharedMemory memory{reinterpret_cast<std::byte*>(mapping.address), mapping.descriptor, nullptr};
  mapping.descriptor = -1;  // the caller's
  memory.free = [mapping] { mapping.Undo(); };
  return memory;
}

std::array<std::uint8_t, 16> DeviceUuid(int device) {
  std::array<std::uint8_t, 16> uuid{};
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    std::memcpy(uuid.data(), properties.uuid.bytes, uuid.size());
  }
  return uuid;
}

}  // namespace softmax::server
