#include "server/metrics/gpu_sampler.h"

#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace softmax::server {

struct GpuSampler::State {
  explicit State(Options given) : options(std::move(given)) {}

  const Options options;
  Mutex mu;
  ConditionVariable changed;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  bool ended ABSL_GUARDED_BY(mu) = false;
  TimePoint taken_at ABSL_GUARDED_BY(mu);
  std::vector<GpuStats> latest ABSL_GUARDED_BY(mu);
};

GpuSampler::GpuSampler(const Options& options) : state_(std::make_shared<State>(options)) {
  std::thread([state = state_] { Run(*state); }).detach();
}

GpuSampler::~GpuSampler() {
  const TimePoint until = SteadyClock::now() + state_->options.patience;
  MutexLock lock(state_->mu);
  state_->stopping = true;
  state_->changed.notify_all();
  while (!state_->ended && SteadyClock::now() < until) state_->changed.wait_until(state_->mu, until);
}

std::vector<GpuStats> GpuSampler::Latest() const {
  MutexLock lock(state_->mu);
  if (SteadyClock::now() - state_->taken_at > 3 * state_->options.interval) return {};
  return state_->latest;
}

void GpuSampler::Run(State& state) {
  std::unique_ptr<Nvml> nvml = Nvml::Load(state.options.library.c_str());
  bool stopping = nvml == nullptr;
  while (!stopping) {
    std::vector<GpuStats> sample = nvml->Read();
    MutexLock lock(state.mu);
    state.latest = std::move(sample);
    state.taken_at = SteadyClock::now();
    const TimePoint next = state.taken_at + state.options.interval;
    while (!state.stopping && SteadyClock::now() < next) state.changed.wait_until(state.mu, next);
    stopping = state.stopping;
  }
  nvml.reset();
  MutexLock lock(state.mu);
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace softmax::server
