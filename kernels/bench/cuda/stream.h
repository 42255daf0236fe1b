#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "kernels/bench/cuda/cuda_check.h"

namespace softmax::kernels::bench {

class Stream {
 public:
  Stream() { CudaCheck(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void Synchronize() const { CudaCheck(cudaStreamSynchronize(stream_), "run"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { CudaCheck(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(const Stream& stream) const { CudaCheck(cudaEventRecord(event_, stream.get()), "cudaEventRecord"); }
  // Both must have happened.
  double UsSince(const Event& start) const {
    float ms = 0;
    CudaCheck(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return ms * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// What `enqueue` puts on the stream, as one graph.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void()>& enqueue) {
    CudaCheck(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream.get(), &graph));
      static_cast<void>(cudaGraphDestroy(graph));
      throw;
    }
    CudaCheck(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiate(&graph_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    CudaCheck(error, "cudaGraphInstantiate");
    CudaCheck(cudaGraphUpload(graph_, stream.get()), "cudaGraphUpload");
  }
  ~Graph() { static_cast<void>(cudaGraphExecDestroy(graph_)); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void Launch(const Stream& stream) const { CudaCheck(cudaGraphLaunch(graph_, stream.get()), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace softmax::kernels::bench
