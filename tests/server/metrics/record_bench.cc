// What recording costs the thread that serves: ns per event, alone and with other threads on shards
// of their own.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>

#include "server/metrics/metrics.h"

namespace softmax::server {
namespace {

Metrics& SharedMetrics() {
  static const std::unique_ptr<Metrics> metrics = Metrics::Create({});
  return *metrics;
}

void RequestFinished(benchmark::State& state) {
  Recorder* recorder = SharedMetrics().AddRecorder();
  RequestSample sample;
  sample.ran = true;
  std::int64_t i = 0;
  for (auto _ : state) {
    sample.total = Nanoseconds(30'000 + (i * 7919) % 400'000);
    sample.queue = Nanoseconds((i * 104729) % 50'000);
    sample.batch = Nanoseconds((i * 1299709) % 90'000);
    recorder->RequestFinished(sample);
    ++i;
  }
}
BENCHMARK(RequestFinished)->Threads(1)->Threads(2);

void BatchFinished(benchmark::State& state) {
  Recorder* recorder = SharedMetrics().AddRecorder();
  BatchSample batch;
  std::uint64_t i = 0;
  for (auto _ : state) {
    batch.rows = (i * 7919) % 5000;
    batch.requests = i % 256;
    batch.input_bytes = (i * 104729) % 1'000'000;
    batch.output_bytes = batch.input_bytes;
    batch.execution = Nanoseconds(12'000 + i % 80'000);
    recorder->BatchFinished(batch);
    ++i;
  }
}
BENCHMARK(BatchFinished)->Threads(1)->Threads(2);

void PayloadCopiedIn(benchmark::State& state) {
  Recorder* recorder = SharedMetrics().AddRecorder();
  for (auto _ : state) {
    recorder->PayloadCopiedIn(64);
  }
}
BENCHMARK(PayloadCopiedIn)->Threads(1)->Threads(2);

void Scrape(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(SharedMetrics().Render());
  }
}
BENCHMARK(Scrape)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace softmax::server
