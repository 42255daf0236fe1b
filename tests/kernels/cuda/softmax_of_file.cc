#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "kernels/softmax.h"

// softmax_of_file ROWS COLS INPUT OUTPUT: the softmax of a file of fp32 rows, for comparing with other programs
// (torch_difference.py).
int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: softmax_of_file ROWS COLS INPUT OUTPUT\n");
    return 2;
  }
  softmax::kernels::Segment segment;
  segment.outer = std::atoll(argv[1]);
  segment.cols = segment.input_stride = segment.output_stride = std::atoll(argv[2]);
  std::vector<char> bytes(segment.outer * segment.cols * sizeof(float));
  if (!std::ifstream(argv[3], std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    std::fprintf(stderr, "softmax_of_file: %s holds less than %zu bytes\n", argv[3], bytes.size());
    return 1;
  }
  void* data = nullptr;
  const auto check = [](cudaError_t error) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "softmax_of_file: %s\n", cudaGetErrorString(error));
    std::exit(1);
  };
  check(softmax::kernels::PrepareSoftmaxKernels());
  check(cudaMalloc(&data, bytes.size()));
  check(cudaMemcpy(data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  segment.input = data;
  segment.output = data;
  using softmax::kernels::DataType;
  check(softmax::kernels::LaunchSoftmax(DataType::kFloat32, DataType::kFloat32, segment, nullptr));
  check(cudaMemcpy(bytes.data(), data, bytes.size(), cudaMemcpyDeviceToHost));
  check(cudaFree(data));
  std::ofstream out(argv[4], std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return out.flush() ? 0 : 1;
}
