// The driver's functions for memory that processes share: "device memory" is a file of no name.
#include "tests/server/execution/fake_driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "tests/server/execution/fake_cuda.h"

namespace softmax::testing::fake_cuda {
namespace {

constexpr std::size_t kGranularity = 2 << 20;

struct Pretended {
  std::mutex mu;
  std::string refused;
  std::map<CUmemGenericAllocationHandle, std::size_t> handles;  // the file's descriptor, and its bytes
  std::map<CUdeviceptr, std::size_t> addresses;                 // reserved
  std::map<CUdeviceptr, std::size_t> mappings;
};

Pretended& driver() {
  static Pretended the_driver;
  return the_driver;
}

bool Refuses(const char* name) { return driver().refused == name; }

CUresult DriverGetAttribute(int* value, CUdevice_attribute attribute, CUdevice /*device*/) {
  EXPECT_EQ(attribute, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  *value = Refuses("cuDeviceGetAttribute") ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult DriverGetGranularity(std::size_t* bytes, const CUmemAllocationProp* /*properties*/,
                              CUmemAllocationGranularity_flags /*option*/) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult DriverCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                      unsigned long long /*flags*/) {
  EXPECT_EQ(bytes % kGranularity, 0u);
  EXPECT_EQ(properties->requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (Refuses("cuMemCreate")) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create("device", MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  void* const data = mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, fd, 0);
  std::memset(data, 0xa5, bytes);  // what was there before
  munmap(data, bytes);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  driver().handles[*handle] = bytes;
  return CUDA_SUCCESS;
}

CUresult DriverRelease(CUmemGenericAllocationHandle handle) {
  EXPECT_EQ(driver().handles.erase(handle), 1u);
  close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}

CUresult DriverExport(void* descriptor, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType /*type*/,
                      unsigned long long /*flags*/) {
  if (Refuses("cuMemExportToShareableHandle")) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(descriptor) = dup(static_cast<int>(handle));
  return CUDA_SUCCESS;
}

CUresult DriverReserve(CUdeviceptr* address, std::size_t bytes, std::size_t /*alignment*/, CUdeviceptr /*wanted*/,
                       unsigned long long /*flags*/) {
  if (Refuses("cuMemAddressReserve")) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = reinterpret_cast<CUdeviceptr>(data);
  driver().addresses[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult DriverFreeAddress(CUdeviceptr address, std::size_t bytes) {
  EXPECT_EQ(driver().mappings.count(address), 0u) << "it is mapped";
  EXPECT_EQ(driver().addresses.erase(address), 1u);
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CUresult DriverMap(CUdeviceptr address, std::size_t bytes, std::size_t /*offset*/, CUmemGenericAllocationHandle handle,
                   unsigned long long /*flags*/) {
  if (Refuses("cuMemMap")) return CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(driver().addresses[address], bytes);
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  driver().mappings[address] = bytes;
  return CUDA_SUCCESS;
}

CUresult DriverUnmap(CUdeviceptr address, std::size_t bytes) {
  EXPECT_EQ(driver().mappings.erase(address), 1u);
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

CUresult DriverSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count) {
  if (Refuses("cuMemSetAccess")) return CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(access->flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

const std::map<std::string, void*>& Functions() {
  static const std::map<std::string, void*> functions = {
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&DriverGetAttribute)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&DriverGetGranularity)},
      {"cuMemCreate", reinterpret_cast<void*>(&DriverCreate)},
      {"cuMemRelease", reinterpret_cast<void*>(&DriverRelease)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&DriverExport)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&DriverReserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&DriverFreeAddress)},
      {"cuMemMap", reinterpret_cast<void*>(&DriverMap)},
      {"cuMemUnmap", reinterpret_cast<void*>(&DriverUnmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&DriverSetAccess)}};
  return functions;
}

}  // namespace

void RefuseDriverCall(const char* name) { driver().refused = name; }

std::size_t DriverAllocations() {
  return driver().handles.size() + driver().addresses.size() + driver().mappings.size();
}

}  // namespace softmax::testing::fake_cuda

namespace fake = softmax::testing::fake_cuda;

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                                        unsigned long long /*flags*/,
                                                        cudaDriverEntryPointQueryResult* result) {
  const auto found = fake::Functions().find(symbol);
  *result = found == fake::Functions().end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  if (found != fake::Functions().end()) *function = found->second;
  return cudaSuccess;
}
