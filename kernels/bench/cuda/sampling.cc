#include "kernels/bench/cuda/sampling.h"

#include <algorithm>

#include "kernels/bench/cuda/fill.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kTrials = 5;
constexpr int kWarmups = 2000;  // about 0.1 s, until the clocks are up

struct Interval {
  Event start;
  Event stop;
};

}  // namespace

Sampler::Sampler(const Stream& stream) : stream_(stream) {
  int device = 0;
  int l2_bytes = 0;
  CudaCheck(cudaGetDevice(&device), "cudaGetDevice");
  CudaCheck(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "L2 cache size");
  cold_bytes_ = 3 * static_cast<std::size_t>(l2_bytes);
  flushing_.Reserve(cold_bytes_ / 16 * 16);
  CudaCheck(cudaMemsetAsync(flushing_.data(), 0, flushing_.bytes(), stream_.get()), "cudaMemset");
  for (int i = 0; i < kWarmups; ++i) FlushCaches();
}

void Sampler::FlushCaches() {
  CudaCheck(LaunchRead(ReadForm::kPersistent, flushing_.data(), flushing_.bytes(), stream_.get()),
            "reading the flush buffer");
}

double Sampler::Trial(const Launch& launch, const Slot& slot) {
  const auto launch_once = [&] { CudaCheck(launch(slot, stream_.get()), "launch"); };
  // The work list of a batch is written by the host at each launch, so that launches may not follow closely.
  std::unique_ptr<Graph> graph;
  if (slot.segments.size() > 1) graph = std::make_unique<Graph>(stream_, launch_once);
  std::vector<Interval> trials(kTrials);
  FlushCaches();  // the launches are queued behind it, so that none waits for the host
  for (const Interval& trial : trials) {
    trial.start.Record(stream_);
    if (graph != nullptr) {
      graph->Launch(stream_);
    } else {
      launch_once();
    }
    trial.stop.Record(stream_);
  }
  stream_.Synchronize();
  double least = trials[0].stop.UsSince(trials[0].start);
  for (const Interval& trial : trials) least = std::min(least, trial.stop.UsSince(trial.start));
  return least;
}

void Sampler::Sample(std::vector<Candidate>& candidates, const std::vector<Slot>& slots, int samples, bool flush) {
  std::vector<Candidate*> healthy;
  for (Candidate& candidate : candidates) {
    if (!candidate.error.empty()) continue;
    healthy.push_back(&candidate);
    if (candidate.graph != nullptr) candidate.graph->Launch(stream_);  // the first one is slower
  }
  std::vector<Interval> intervals(healthy.size() * static_cast<std::size_t>(samples));
  std::size_t next = 0;
  std::size_t slot = 0;
  FlushCaches();
  for (int i = 0; i < samples; ++i) {
    slot = (slot + 1) % slots.size();
    for (Candidate* candidate : healthy) {
      if (flush) FlushCaches();
      const Interval& interval = intervals[next++];
      interval.start.Record(stream_);
      if (candidate->graph != nullptr) {
        candidate->graph->Launch(stream_);
      } else {
        CudaCheck(candidate->launch(slots[slot], stream_.get()), "launch");
      }
      interval.stop.Record(stream_);
    }
  }
  stream_.Synchronize();
  next = 0;
  for (int i = 0; i < samples; ++i) {
    for (Candidate* candidate : healthy) {
      const Interval& interval = intervals[next++];
      candidate->us.push_back(interval.stop.UsSince(interval.start) / candidate->launches);
    }
  }
}

}  // namespace softmax::kernels::bench
