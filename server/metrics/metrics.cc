#include "server/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "common/base/mutex.h"
#include "server/metrics/families.h"
#include "server/metrics/gpu_sampler.h"
#include "server/metrics/open_metrics.h"
#include "server/metrics/scrape_server.h"

namespace softmax::server {
namespace {

// Shared with the scrape server, which may still be answering when Metrics goes.
class Source final : public prometheus::Collectable {
 public:
  explicit Source(Metrics::Options options) : options_(std::move(options)) {
    // A server on the CPU leaves the GPUs of its machine to those who use them.
    if (options_.backend == "cuda") gpus_ = std::make_unique<GpuSampler>(GpuSampler::Options{});
  }

  Recorder* AddRecorder() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    return thread_counters_.emplace_back(std::make_unique<ThreadCounters>()).get();
  }

  void SetGauges(Gauges gauges) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(mu_);
    gauges_ = std::move(gauges);
  }

  // One scrape at a time; recording threads never take this lock. Held over the gauge sources, so
  // that none of them runs any more once ClearGauges has returned.
  Families Collect() const override ABSL_LOCKS_EXCLUDED(mu_) {
    Families families;
    MutexLock lock(mu_);
    CounterTotals totals;
    for (const auto& counters : thread_counters_) counters->AddTo(&totals);
    AddRequestFamilies(totals, &families);
    AddBatchFamilies(totals, &families);
    for (const Gauge& gauge : gauges_) AddFamily(gauge.name, gauge.help, gauge.read(), &families);
    AddBuildFamilies(options_, &families);
    AddProcessFamilies(ReadProcessStats(), &families);
    if (gpus_ != nullptr) AddGpuFamilies(gpus_->Latest(), &families);
    return families;
  }

  std::vector<Exemplar> Exemplars() const ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<Exemplar> exemplars;
    MutexLock lock(mu_);
    for (const auto& counters : thread_counters_) counters->AddTo(&exemplars);
    return exemplars;
  }

 private:
  const Metrics::Options options_;
  std::unique_ptr<GpuSampler> gpus_;  // null: the server does not use any
  mutable Mutex mu_;
  std::vector<std::unique_ptr<ThreadCounters>> thread_counters_ ABSL_GUARDED_BY(mu_);
  Gauges gauges_ ABSL_GUARDED_BY(mu_);
};

class PrometheusMetrics final : public Metrics {
 public:
  explicit PrometheusMetrics(Options options) : source_(std::make_shared<Source>(std::move(options))) {}

  Recorder* AddRecorder() override { return source_->AddRecorder(); }
  void SetGauges(Gauges gauges) override { source_->SetGauges(std::move(gauges)); }
  void ClearGauges() override { source_->SetGauges({}); }
  std::string Render() override { return prometheus::TextSerializer().Serialize(source_->Collect()); }
  std::string Serve(const std::string& address, HttpPages pages) override {
    const auto render = [source = source_](TextFormat format) {
      return format == TextFormat::kOpenMetrics ? OpenMetricsText(source->Collect(), source->Exemplars())
                                                : prometheus::TextSerializer().Serialize(source->Collect());
    };
    return scrape_server_.Start(address, render, std::move(pages));
  }
  int port() const override { return scrape_server_.port(); }

 private:
  const std::shared_ptr<Source> source_;
  ScrapeServer scrape_server_;  // last: its threads stop first
};

}  // namespace

std::unique_ptr<Metrics> Metrics::Create(Options options) {
  return std::make_unique<PrometheusMetrics>(std::move(options));
}

}  // namespace softmax::server
