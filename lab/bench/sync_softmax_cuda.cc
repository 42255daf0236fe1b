#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

#include "kernels/softmax.h"
#include "lab/bench/sync_softmax.h"

namespace softmax::bench {
namespace {

// A stream and device memory for one request at a time. Kept for the next one and freed with the process.
class Lane {
 public:
  cudaError_t Run(const std::string& input, std::int64_t rows, std::int64_t columns, std::string* output) {
    if (cudaError_t e = Prepare(input.size())) return e;
    if (cudaError_t e = cudaMemcpyAsync(device_, input.data(), input.size(), cudaMemcpyHostToDevice, stream_)) return e;
    kernels::Segment segment;
    segment.input = segment.output = device_;
    segment.outer = rows;
    segment.cols = columns;
    segment.input_stride = segment.output_stride = columns;
    constexpr auto kFloat = kernels::DataType::kFloat32;
    if (cudaError_t e = kernels::LaunchSoftmax(kFloat, kFloat, segment, stream_)) return e;
    output->resize(input.size());
    if (cudaError_t e = cudaMemcpyAsync(output->data(), device_, output->size(), cudaMemcpyDeviceToHost, stream_)) {
      return e;
    }
    return cudaStreamSynchronize(stream_);
  }

 private:
  cudaError_t Prepare(std::size_t bytes) {
    if (stream_ == nullptr) {
      if (cudaError_t e = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) return e;
    }
    if (bytes <= size_) return cudaSuccess;
    if (cudaError_t e = cudaFree(device_)) return e;
    size_ = 0;
    if (cudaError_t e = cudaMalloc(&device_, bytes)) return e;
    size_ = bytes;
    return cudaSuccess;
  }

  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  std::size_t size_ = 0;
};

class CudaSoftmax final : public SyncSoftmax {
 public:
  const char* name() const override { return "cuda"; }
  std::string Run(const std::string& input, std::int64_t rows, std::int64_t columns, std::string* output) override {
    std::unique_ptr<Lane> lane = Take();
    const cudaError_t error = lane->Run(input, rows, columns, output);
    std::lock_guard lock(mu_);
    free_.push_back(std::move(lane));
    return error == cudaSuccess ? "" : cudaGetErrorString(error);
  }

 private:
  // The threads of a synchronous server come and go, so lanes are not theirs.
  std::unique_ptr<Lane> Take() {
    std::lock_guard lock(mu_);
    if (free_.empty()) return std::make_unique<Lane>();
    std::unique_ptr<Lane> lane = std::move(free_.back());
    free_.pop_back();
    return lane;
  }

  std::mutex mu_;
  std::vector<std::unique_ptr<Lane>> free_;
};

}  // namespace

std::unique_ptr<SyncSoftmax> MakeCudaSoftmax() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return nullptr;
  if (kernels::PrepareSoftmaxKernels() != cudaSuccess) return nullptr;
  return std::make_unique<CudaSoftmax>();
}

}  // namespace softmax::bench
