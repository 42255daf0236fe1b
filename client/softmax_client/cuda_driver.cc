#include "client/softmax_client/cuda_driver.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>

#include <cstring>

namespace softmax::client {
namespace {

// What is used of the driver's interface, which is binary compatible across versions.
using Result = int;
using Device = int;
using Context = void*;
using Pointer = unsigned long long;
using Handle = unsigned long long;
struct Uuid {
  std::uint8_t bytes[16];
};
struct AccessOfDevice {
  int location_type;  // CU_MEM_LOCATION_TYPE_DEVICE
  int device;
  int flags;
};
constexpr int kLocationDevice = 1;
constexpr int kReadWrite = 3;
constexpr int kPosixDescriptor = 1;

struct Driver {
  Result (*init)(unsigned) = nullptr;
  Result (*device_count)(int*) = nullptr;
  Result (*device_get)(Device*, int) = nullptr;
  Result (*device_uuid)(Uuid*, Device) = nullptr;
  Result (*context_retain)(Context*, Device) = nullptr;
  Result (*context_release)(Device) = nullptr;
  Result (*context_push)(Context) = nullptr;
  Result (*context_pop)(Context*) = nullptr;
  Result (*import_handle)(Handle*, void*, int) = nullptr;
  Result (*release_handle)(Handle) = nullptr;
  Result (*reserve)(Pointer*, std::size_t, std::size_t, Pointer, unsigned long long) = nullptr;
  Result (*free_reserved)(Pointer, std::size_t) = nullptr;
  Result (*map)(Pointer, std::size_t, std::size_t, Handle, unsigned long long) = nullptr;
  Result (*unmap)(Pointer, std::size_t) = nullptr;
  Result (*set_access)(Pointer, std::size_t, const AccessOfDevice*, std::size_t) = nullptr;
  Result (*copy_to_device)(Pointer, const void*, std::size_t) = nullptr;
  Result (*copy_to_host)(void*, Pointer, std::size_t) = nullptr;
  Result (*error_text)(Result, const char**) = nullptr;
  absl::Status status;
};

Driver LoadDriver() {
  Driver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.status = absl::UnimplementedError(absl::StrCat("device memory: no CUDA driver here: ", dlerror()));
    return driver;
  }
  const auto load = [&](const char* name, auto* function) {
    *reinterpret_cast<void**>(function) = dlsym(library, name);
    if (*function == nullptr && driver.status.ok()) {
      driver.status = absl::UnimplementedError(absl::StrCat("device memory: the CUDA driver has no ", name));
    }
  };
  load("cuInit", &driver.init);
  load("cuDeviceGetCount", &driver.device_count);
  load("cuDeviceGet", &driver.device_get);
  load("cuDeviceGetUuid", &driver.device_uuid);
  load("cuDevicePrimaryCtxRetain", &driver.context_retain);
  load("cuDevicePrimaryCtxRelease_v2", &driver.context_release);
  load("cuCtxPushCurrent_v2", &driver.context_push);
  load("cuCtxPopCurrent_v2", &driver.context_pop);
  load("cuMemImportFromShareableHandle", &driver.import_handle);
  load("cuMemRelease", &driver.release_handle);
  load("cuMemAddressReserve", &driver.reserve);
  load("cuMemAddressFree", &driver.free_reserved);
  load("cuMemMap", &driver.map);
  load("cuMemUnmap", &driver.unmap);
  load("cuMemSetAccess", &driver.set_access);
  load("cuMemcpyHtoD_v2", &driver.copy_to_device);
  load("cuMemcpyDtoH_v2", &driver.copy_to_host);
  load("cuGetErrorString", &driver.error_text);
  if (!driver.status.ok()) return driver;
  if (const Result result = driver.init(0); result != 0) {
    const char* text = nullptr;
    driver.error_text(result, &text);
    driver.status = absl::UnimplementedError(
        absl::StrCat("device memory: the CUDA driver does not start: ", text == nullptr ? "unknown error" : text));
  }
  return driver;
}

const Driver& TheDriver() {
  static const Driver* const driver = new Driver(LoadDriver());
  return *driver;
}

absl::Status StatusOf(Result result, const char* call) {
  if (result == 0) return absl::OkStatus();
  const char* text = nullptr;
  TheDriver().error_text(result, &text);
  return absl::InternalError(absl::StrCat(call, ": ", text == nullptr ? "unknown error" : text, " (", result, ")"));
}

// The calling thread's context is this one for a while.
class Current {
 public:
  explicit Current(Context context) { TheDriver().context_push(context); }
  ~Current() {
    Context old = nullptr;
    TheDriver().context_pop(&old);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

absl::StatusOr<Device> DeviceOf(const std::array<std::uint8_t, 16>& wanted) {
  int count = 0;
  absl::Status status = StatusOf(TheDriver().device_count(&count), "cuDeviceGetCount");
  if (!status.ok()) return status;
  for (int i = 0; i < count; ++i) {
    Device device = 0;
    Uuid uuid = {};
    if (TheDriver().device_get(&device, i) != 0 || TheDriver().device_uuid(&uuid, device) != 0) continue;
    if (std::memcmp(uuid.bytes, wanted.data(), wanted.size()) == 0) return device;
  }
  return absl::NotFoundError(
      absl::StrCat("device memory: the region's device is none of the ", count, " that this process may use"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMapping>> DeviceMapping::Map(int fd, std::uint64_t bytes,
                                                                  const std::array<std::uint8_t, 16>& device_uuid) {
  if (!TheDriver().status.ok()) return TheDriver().status;
  const auto device = DeviceOf(device_uuid);
  if (!device.ok()) return device.status();
  std::unique_ptr<DeviceMapping> mapping(new DeviceMapping());
  absl::Status status = StatusOf(TheDriver().context_retain(&mapping->context_, *device), "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  mapping->device_ = *device;
  mapping->bytes_ = bytes;
  status = mapping->Import(fd);
  if (!status.ok()) return status;
  return mapping;
}

absl::Status DeviceMapping::Import(int fd) {
  const Driver& driver = TheDriver();
  const Current current(context_);
  void* const descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
  absl::Status status =
      StatusOf(driver.import_handle(&handle_, descriptor, kPosixDescriptor), "cuMemImportFromShareableHandle");
  has_handle_ = status.ok();
  if (status.ok()) status = StatusOf(driver.reserve(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve");
  if (status.ok()) status = StatusOf(driver.map(address_, bytes_, 0, handle_, 0), "cuMemMap");
  if (!status.ok()) return status;
  mapped_ = true;
  const AccessOfDevice access{kLocationDevice, device_, kReadWrite};
  return StatusOf(driver.set_access(address_, bytes_, &access, 1), "cuMemSetAccess");
}

DeviceMapping::~DeviceMapping() {
  if (device_ < 0) return;
  const Driver& driver = TheDriver();
  {
    const Current current(context_);
    if (mapped_) driver.unmap(address_, bytes_);
    if (address_ != 0) driver.free_reserved(address_, bytes_);
    if (has_handle_) driver.release_handle(handle_);
  }
  driver.context_release(device_);
}

absl::Status DeviceMapping::Write(std::size_t offset, std::span<const std::byte> from) const {
  const Current current(context_);
  return StatusOf(TheDriver().copy_to_device(address_ + offset, from.data(), from.size()), "cuMemcpyHtoD");
}

absl::Status DeviceMapping::Read(std::size_t offset, std::span<std::byte> to) const {
  const Current current(context_);
  return StatusOf(TheDriver().copy_to_host(to.data(), address_ + offset, to.size()), "cuMemcpyDtoH");
}

}  // namespace softmax::client
