#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace softmax::bench {

// Softmax of one request as a plain server computes it: its bytes to the device, one kernel, the answer's bytes back,
// and the thread waits for each. Any thread may call.
class SyncSoftmax {
 public:
  virtual ~SyncSoftmax() = default;
  virtual const char* name() const = 0;
  // float32 along the last axis of `input`, whose data has rows x columns elements, into *output of the same size.
  // Empty: done; otherwise what failed.
  virtual std::string Run(const std::string& input, std::int64_t rows, std::int64_t columns, std::string* output) = 0;
};

// Null where this build has no CUDA or the machine no GPU.
std::unique_ptr<SyncSoftmax> MakeCudaSoftmax();
std::unique_ptr<SyncSoftmax> MakeCpuSoftmax();

}  // namespace softmax::bench
