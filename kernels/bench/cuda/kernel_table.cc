#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/general/plan.h"
#include "kernels/cuda/large_rows/wide.h"
#include "kernels/cuda/rows/link.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/rows/mixed.h"
#include "kernels/cuda/small_rows/share.h"
#include "kernels/cuda/small_rows/tile.h"
#include "kernels/cuda/strips/ring.h"
#include "kernels/softmax.h"

// softmax-kernel-table: what every kernel takes of the GPU here, as CSV. `local_bytes` of a thread are spilled
// registers and arrays that could not stay in them. The blocks a multiprocessor holds are those of the largest block
// the kernel is made for, with its static shared memory, and with 64 KB of dynamic shared memory where it takes that.
namespace softmax::kernels {
namespace {

constexpr int kDynamicBytes = 64 * 1024;

std::vector<const void*> AllKernels() {
  std::vector<const void*> all;
  const auto add = [&](const void* kernel) {
    for (const void* known : all) {
      if (known == kernel) return;
    }
    if (kernel != nullptr) all.push_back(kernel);
  };
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    for (const void* kernel : cuda::MatrixKernelsFor(type)) add(kernel);
    for (const void* kernel : cuda::MixedKernelsFor(type)) add(kernel);
    for (const void* kernel : cuda::ShareKernelsFor(type)) add(kernel);
    for (const void* kernel : cuda::TileKernelsFor(type)) add(kernel);
    for (const void* kernel : cuda::LinkKernelsFor(type)) add(kernel);
    for (const void* kernel : cuda::WideKernelsFor(type).ring) add(kernel);
    for (const void* kernel : cuda::BatchKernelsFor(type).kernels) add(kernel);
    for (const void* kernel : cuda::ColumnKernelsFor(type).kernels) add(kernel);
    for (const void* kernel : cuda::ColumnKernelsFor(type).few) add(kernel);
    if (type != DataType::kFloat64) {
      for (const void* kernel : cuda::ColumnLanesKernelsFor(type)) add(kernel);
      for (const void* kernel : cuda::StreamKernelsFor(type)) add(kernel);
      for (const cuda::ColumnRingForm form : cuda::kColumnRingForms) {
        for (const bool log : {false, true}) add(cuda::ColumnRingKernelOf(type, form, log));
      }
    }
    for (int other = 0; other < 2; ++other) {
      add(cuda::KernelTableFor(type).small[other]);
      add(cuda::KernelTableFor(type).all[other]);
    }
  }
  return all;
}

// "SliceMatrixKernel<float, false, true>", without namespaces and parameters.
std::string NameOf(const void* kernel) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, kernel) != cudaSuccess) return "unknown";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
  std::string name = text != nullptr ? text.get() : mangled;
  for (const char* part : {"softmax::kernels::cuda::", "void ", "(bool)", "(int)", "(ColumnMode)"}) {
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
  for (const void* kernel : AllKernels()) {
    if (error == cudaSuccess) error = PrintKernel(kernel);
  }
  if (error == cudaSuccess) return 0;
  std::fprintf(stderr, "softmax-kernel-table: %s\n", cudaGetErrorString(error));
  return 1;
}

}  // namespace
}  // namespace softmax::kernels

int main() { return softmax::kernels::Run(); }
