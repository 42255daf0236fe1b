// What the client library uses of the CUDA driver, for machines without one: a library of its name, found by the tests'
// run path. It has two devices, whose memory is a shared file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/client/support/fake_device.h"

namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
int contexts = 0;  // retained
thread_local int current = 0;

struct Access {
  int location_type;
  int device;
  int flags;
};

}  // namespace

extern "C" {

int cuInit(unsigned flags) { return flags == 0 ? 0 : kInvalidValue; }

int cuDeviceGetCount(int* count) {
  *count = softmax::client::kFakeDevices;
  return 0;
}

int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}

int cuDeviceGetUuid(void* uuid, int device) {
  const auto bytes = softmax::client::FakeDeviceUuid(device);
  std::memcpy(uuid, bytes.data(), bytes.size());
  return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int /*device*/) {
  ++contexts;
  *context = &contexts;
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int /*device*/) { return --contexts >= 0 ? 0 : kInvalidContext; }

int cuCtxPushCurrent_v2(void* context) { return context == &contexts ? (++current, 0) : kInvalidContext; }

int cuCtxPopCurrent_v2(void** context) {
  *context = &contexts;
  return --current >= 0 ? 0 : kInvalidContext;
}

int cuMemImportFromShareableHandle(unsigned long long* handle, void* descriptor, int type) {
  if (current == 0) return kInvalidContext;
  if (type != 1) return kInvalidValue;
  *handle = static_cast<unsigned long long>(dup(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor))));
  return 0;
}

int cuMemRelease(unsigned long long handle) { return close(static_cast<int>(handle)) == 0 ? 0 : kInvalidValue; }

int cuMemAddressReserve(unsigned long long* address, std::size_t bytes, std::size_t /*alignment*/,
                        unsigned long long /*at*/, unsigned long long /*flags*/) {
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = reinterpret_cast<std::uintptr_t>(memory);
  return memory == MAP_FAILED ? 2 : 0;
}

int cuMemAddressFree(unsigned long long address, std::size_t bytes) {
  return munmap(reinterpret_cast<void*>(address), bytes) == 0 ? 0 : kInvalidValue;
}

int cuMemMap(unsigned long long address, std::size_t bytes, std::size_t offset, unsigned long long handle,
             unsigned long long /*flags*/) {
  void* const wanted = reinterpret_cast<void*>(address);
  void* const mapped =
      mmap(wanted, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), static_cast<off_t>(offset));
  return mapped == wanted ? 0 : kInvalidValue;
}

int cuMemUnmap(unsigned long long address, std::size_t bytes) {
  // Who ends does not look at the result.
  if (mprotect(reinterpret_cast<void*>(address), bytes, PROT_NONE) != 0) std::abort();
  return 0;
}

int cuMemSetAccess(unsigned long long address, std::size_t bytes, const Access* access, std::size_t count) {
  if (count != 1 || access->location_type != 1 || access->flags != 3) return kInvalidValue;
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : kInvalidValue;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  if (current == 0) return kInvalidContext;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}

int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  if (current == 0) return kInvalidContext;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}

int cuGetErrorString(int /*result*/, const char** text) {
  *text = "as pretended";
  return 0;
}

}  // extern "C"
