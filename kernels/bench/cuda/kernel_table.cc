#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/cuda/registry.h"
#include "kernels/softmax.h"

// softmax-kernel-table: what every kernel takes of the GPU here, as CSV. `local_bytes` of a thread are spilled
// registers and arrays that could not stay in them. The blocks a multiprocessor holds are those of the largest block
// the kernel is made for, with its static shared memory, and with 64 KB of dynamic shared memory where it takes that.
namespace softmax::kernels {
namespace {

constexpr int kDynamicBytes = 64 * 1024;

// "SliceMatrixKernel<float, false>", without namespaces and parameters.
std::string NameOf(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess) return "unknown";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
  std::string name = text != nullptr ? text.get() : mangled;
  for (const char* part : {"softmax::kernels::cuda::", "void ", "(bool)", "(int)"}) {
    for (std::size_t at; (at = name.find(part)) != std::string::npos;) name.erase(at, std::string(part).size());
  }
  return name.substr(0, name.rfind('('));
}

cudaError_t PrintKernel(const void* kernel) {
  cudaFuncAttributes attributes = {};
  int blocks = 0;
  int dynamic_blocks = 0;
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, attributes.maxThreadsPerBlock, 0);
  }
  if (error == cudaSuccess && attributes.maxDynamicSharedSizeBytes >= kDynamicBytes) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&dynamic_blocks, kernel, attributes.maxThreadsPerBlock,
                                                          kDynamicBytes);
  }
  std::printf("\"%s\",%d,%zu,%zu,%d,%d,", NameOf(kernel).c_str(), attributes.numRegs, attributes.localSizeBytes,
              attributes.sharedSizeBytes, attributes.maxThreadsPerBlock, blocks);
  if (dynamic_blocks > 0) std::printf("%d", dynamic_blocks);
  std::printf("\n");
  return error;
}

int Run() {
  cudaError_t error = PrepareSoftmaxKernels();
  std::printf("kernel,registers,local_bytes,static_shared_bytes,threads,blocks,blocks_with_64KB\n");
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    for (const cuda::Kernel& kernel : cuda::KernelsOf(type)) {
      if (error == cudaSuccess) error = PrintKernel(kernel.address);
    }
  }
  if (error == cudaSuccess) return 0;
  std::fprintf(stderr, "softmax-kernel-table: %s\n", cudaGetErrorString(error));
  return 1;
}

}  // namespace
}  // namespace softmax::kernels

int main() { return softmax::kernels::Run(); }
