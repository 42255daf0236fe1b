#include "lab/bench/inprocess_caller.h"

#include <cstring>
#include <random>

#include "kernels/reference.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace softmax::bench {
namespace {

using server::Answer;

// As the queue threads do (server/rpc/queue/queue_thread.cc).
constexpr int kSpinPolls = 64;

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

class Caller::BatchCounts final : public server::Recorder {
 public:
  BatchCounts(const std::atomic<Phase>& phase, CallerFigures& figures) : phase_(phase), figures_(figures) {}

  void RequestFinished(const server::RequestSample& /*sample*/) override {}
  void RequestRefused(server::RefuseReason /*reason*/) override {}
  void Add(server::Counter /*counter*/, std::uint64_t /*count*/) override {}
  void BatchFinished(const server::BatchSample& sample) override {
    if (phase_.load(std::memory_order_relaxed) != Phase::kMeasure) return;
    ++figures_.batches;
    figures_.batch_requests += sample.requests;
    figures_.batch_rows += sample.rows;
    figures_.execution += sample.execution;
  }

 private:
  const std::atomic<Phase>& phase_;
  CallerFigures& figures_;
};

class Caller::Request final : public server::PendingRequest {
 public:
  Request(Caller& caller, std::uint64_t seed)
      : caller_(caller), input_(static_cast<std::size_t>(caller.load_.rows * caller.load_.columns)) {
    spec_.outer = caller.load_.rows;
    spec_.cols = caller.load_.columns;
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : input_) value = normal(random);
  }

  void Begin(TimePoint now) { arrived_ = now; }
  void CopyInput(std::byte* destination) override { std::memcpy(destination, input_.data(), spec_.input_bytes()); }
  const std::uint32_t* lengths() const override { return nullptr; }

  void Complete(const Answer& answer) override {
    CallerFigures& figures = caller_.figures_;
    const Phase phase = caller_.phase_.load(std::memory_order_relaxed);
    if (!answer.status.ok()) {
      if (figures.failed++ == 0) figures.first_failure = answer.status.ToString();
    } else {
      if (phase == Phase::kMeasure) {
        ++figures.answered;
        caller_.latency_->Record(static_cast<std::uint64_t>((SteadyClock::now() - arrived_).count()));
      }
      if (caller_.load_.verify && (phase == Phase::kStop || !judged_)) {
        judged_ = true;
        Judge(answer.output);
      }
    }
    caller_.idle_.push_back(this);
  }

 private:
  void Judge(const std::byte* output) {
    kernels::Segment segment;
    segment.input = input_.data();
    segment.output = const_cast<std::byte*>(output);
    segment.outer = spec_.outer;
    segment.cols = spec_.cols;
    segment.input_stride = segment.output_stride = spec_.cols;
    const auto judgement = kernels::Judge(spec_.input_type, spec_.output_type, segment, kernels::Bounds::kUsual);
    ++caller_.figures_.judged;
    if (judgement.ok) return;
    if (caller_.figures_.wrong++ == 0) caller_.figures_.first_failure = judgement.message;
  }

  Caller& caller_;
  std::vector<float> input_;
  bool judged_ = false;
};

Caller::Caller(const CallerLoad& load, const server::Batcher::Options& options, server::Arena& arena,
               server::Backlog& backlog, std::uint64_t seed)
    : load_(load),
      options_(options),
      arena_(arena),
      backlog_(backlog),
      latency_(std::make_unique<client::Histogram>()),
      counts_(std::make_unique<BatchCounts>(phase_, figures_)) {
  for (std::uint32_t i = 0; i < load_.in_flight; ++i) {
    requests_.push_back(std::make_unique<Request>(*this, seed + i));
    idle_.push_back(requests_.back().get());
  }
}

Caller::~Caller() {
  Set(Phase::kStop);
  Join();
}

void Caller::Start(std::unique_ptr<server::Lane> lane) {
  lane_ = std::move(lane);
  batcher_ = std::make_unique<server::Batcher>(options_, arena_, backlog_, *lane_, *counts_, wake());
  thread_ = std::thread([this] { Run(); });
}

void Caller::Set(Phase phase) {
  phase_.store(phase);
  Wake();
}

void Caller::Join() {
  if (thread_.joinable()) thread_.join();
}

// One request an "event": after each, what has finished is looked for, as after an event of a queue.
void Caller::SubmitIdle() {
  for (std::size_t ready = idle_.size(); ready > 0; --ready) {
    Request* const request = idle_.front();
    idle_.pop_front();
    const TimePoint now = SteadyClock::now();
    request->Begin(now);
    batcher_->Submit(request, now);
    batcher_->Poll();
    if (batcher_->MustFlushEarly()) batcher_->Flush(now);
  }
}

void Caller::Run() {
  while (true) {
    const std::uint32_t seen = wakes_.load(std::memory_order_acquire);
    const bool stop = phase_.load() == Phase::kStop;
    if (!stop) SubmitIdle();
    const TimePoint now = SteadyClock::now();
    batcher_->Poll();
    batcher_->Flush(now);
    if (stop && batcher_->pending() == 0) return;
    if (batcher_->Poll() || (!stop && !idle_.empty())) continue;
    if (batcher_->needs_polling()) {
      for (int i = 0; i < kSpinPolls && !batcher_->Poll(); ++i) CpuRelax();
      continue;
    }
    wakes_.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace softmax::bench
