#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bench/cuda/memory.h"
#include "kernels/bench/cuda/provider.h"
#include "kernels/bench/cuda/stream.h"

namespace softmax::kernels::bench {

// One provider at one point, ready to be timed.
struct Candidate {
  std::string provider;
  Launch launch;
  std::string error;
  double trial_us = 0;           // of a single launch
  std::unique_ptr<Graph> graph;  // null: one launch between two events
  int launches = 1;              // in the graph
  std::vector<double> us;        // of one launch, one for each sample

  std::string mode() const { return graph == nullptr ? "event" : "graph" + std::to_string(launches); }
};

// Times candidates in turns, so that whatever the machine does meets all of them alike.
class Sampler {
 public:
  explicit Sampler(const Stream& stream);

  // The shortest of a few single launches. The slot must have been used before, and be idle.
  double Trial(const Launch& launch, const Slot& slot);

  // Fills `us` of every candidate without an error. With flush, what the caches hold is driven out before each sample.
  void Sample(std::vector<Candidate>& candidates, const std::vector<Slot>& slots, int samples, bool flush);

  // So many bytes in all slots together are too many for the L2 cache to hold any.
  std::size_t cold_bytes() const { return cold_bytes_; }

 private:
  void FlushCaches();

  const Stream& stream_;
  std::size_t cold_bytes_ = 0;
  Memory flushing_{Memory::Where::kDevice};
};

}  // namespace softmax::kernels::bench
