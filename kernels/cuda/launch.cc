#include "kernels/cuda/launch.h"

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace softmax::kernels::cuda {
namespace {

template <typename Function>
void Find(const char* name, Function* function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) *function = reinterpret_cast<Function>(found);
}

// The driver's library is not linked: programs start where there is none.
struct Driver {
  CUresult (*context_id)(CUcontext, unsigned long long*) = nullptr;
  CUresult (*launch)(const CUlaunchConfig*, CUfunction, void**, void**) = nullptr;

  Driver() {
    Find("cuCtxGetId", &context_id);
    Find("cuLaunchKernelEx", &launch);
  }
  bool complete() const { return context_id != nullptr && launch != nullptr; }
};

const Driver& TheDriver() {
  static const Driver driver;
  return driver;
}

// A kernel's handle in one context. Contexts' numbers are never used again, unlike their addresses.
struct Handle {
  const void* kernel = nullptr;
  unsigned long long context = 0;
  CUfunction function = nullptr;
};

constexpr int kMaxAttributes = 2;
// More than a service uses in turn; kernels that meet in a place are looked up again.
constexpr std::size_t kHandles = 64;
thread_local std::array<Handle, kHandles> handles;

cudaError_t FindFunction(const void* kernel, unsigned long long context, CUfunction* function) {
  // What the compiler puts at these addresses are functions of 16 bytes and more.
  Handle& handle = handles[reinterpret_cast<std::uintptr_t>(kernel) / 16 % kHandles];
  if (handle.kernel != kernel || handle.context != context) {
    cudaFunction_t found = nullptr;
    if (const cudaError_t error = cudaGetFuncBySymbol(&found, kernel); error != cudaSuccess) return error;
    handle = {kernel, context, found};
  }
  *function = handle.function;
  return cudaSuccess;
}

// The same launch in the driver's types.
cudaError_t LaunchByDriver(const Driver& driver, CUfunction function, const cudaLaunchConfig_t& config, void** args) {
  static_assert(sizeof(CUlaunchAttributeValue) == sizeof(cudaLaunchAttributeValue));
  CUlaunchAttribute attributes[kMaxAttributes] = {};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    attributes[i].id = static_cast<CUlaunchAttributeID>(config.attrs[i].id);
    std::memcpy(&attributes[i].value, &config.attrs[i].val, sizeof(CUlaunchAttributeValue));
  }
  CUlaunchConfig driver_config = {};
  driver_config.gridDimX = config.gridDim.x;
  driver_config.blockDimX = config.blockDim.x;
  driver_config.gridDimY = driver_config.gridDimZ = driver_config.blockDimY = driver_config.blockDimZ = 1;
  driver_config.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  driver_config.hStream = config.stream;
  driver_config.attrs = attributes;
  driver_config.numAttrs = config.numAttrs;
  // Errors have the same numbers in both interfaces.
  return static_cast<cudaError_t>(driver.launch(&driver_config, function, args, nullptr));
}

}  // namespace

cudaError_t Launch(const void* kernel, const Grid& grid, void** args, cudaStream_t stream) {
  cudaLaunchAttribute attributes[kMaxAttributes] = {};
  unsigned count = 0;
  if (grid.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  } else if (grid.cluster_blocks > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(grid.cluster_blocks), 1, 1};
  }
  if (grid.dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(grid.dynamic_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  const Driver& driver = TheDriver();
  unsigned long long context = 0;
  if (!driver.complete() || driver.context_id(nullptr, &context) != CUDA_SUCCESS) {
    return cudaLaunchKernelExC(&config, kernel, args);  // makes the thread's context, if that is what is missing
  }
  CUfunction function = nullptr;
  if (const cudaError_t error = FindFunction(kernel, context, &function); error != cudaSuccess) return error;
  return LaunchByDriver(driver, function, config, args);
}

}  // namespace softmax::kernels::cuda
