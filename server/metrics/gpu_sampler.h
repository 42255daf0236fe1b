#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/metrics/nvml.h"

namespace softmax::server {

// Reads the GPUs every so often on a thread of its own, so that a scrape costs no driver call and a driver that hangs
// holds up neither a scrape nor the end of the process. Latest is thread-safe.
class GpuSampler {
 public:
  struct Options {
    std::string library = "libnvidia-ml.so.1";
    std::chrono::milliseconds interval{2000};  // utilization is the driver's mean over up to 1 s
    std::chrono::milliseconds patience{500};   // of the destructor with a driver that hangs
  };

  explicit GpuSampler(const Options& options);
  ~GpuSampler();

  // The last sample. Empty: there is none yet, there is no library, or the last one is older than three intervals:
  // numbers that have stopped are worse than none.
  std::vector<GpuStats> Latest() const;

 private:
  struct State;
  static void Run(State& state);

  const std::shared_ptr<State> state_;  // also the thread's, which may outlive this when the driver hangs
};

}  // namespace softmax::server
