#include "server/metrics/thread_counters.h"

#include <algorithm>
#include <iterator>

namespace softmax::server {
namespace {

constexpr std::size_t kUnknownCode = 2;  // grpc::StatusCode::UNKNOWN

}  // namespace

void ThreadCounters::RequestFinished(const RequestSample& sample) {
  const auto method = static_cast<std::size_t>(sample.method);
  const auto code = static_cast<std::size_t>(sample.code);
  requests_[method][code < kCodes ? code : kUnknownCode].Add(1);
  request_time_[method].Observe(CountOf(sample.total));
  if (sample.ran) {
    queue_time_.Observe(CountOf(sample.queue));
    batch_wait_.Observe(CountOf(sample.batch));
  }
}

void ThreadCounters::RequestRefused(RefuseReason reason) { refused_[static_cast<std::size_t>(reason)].Add(1); }

void ThreadCounters::BatchFinished(const BatchSample& sample) {
  batches_[static_cast<std::size_t>(sample.reason)].Add(1);
  batch_rows_.Observe(sample.rows);
  batch_requests_.Observe(sample.requests);
  batch_bytes_.Observe(sample.input_bytes + sample.output_bytes);
  execution_.Observe(CountOf(sample.execution));
  for (std::size_t i = 0; i < kAnswerKinds; ++i) answers_[i].Add(sample.answers[i]);
  Add(Counter::kSavedBytes, sample.saved_bytes);
  Add(Counter::kInputBytes, sample.input_bytes);
  Add(Counter::kOutputBytes, sample.output_bytes);
}

void ThreadCounters::Add(Counter counter, std::uint64_t count) {
  counters_[static_cast<std::size_t>(counter)].Add(count);
}

void ThreadCounters::InTrace(const RequestSample& sample, std::string_view trace_id) {
  MutexLock lock(mu_);
  exemplars_[static_cast<std::size_t>(sample.method)][kTimeBounds.IndexOf(CountOf(sample.total))] = {
      sample.method, sample.total, std::string(trace_id), std::chrono::system_clock::now()};
}

void ThreadCounters::CameLate(Nanoseconds late) { lag_.Observe(CountOf(late)); }

void ThreadCounters::AddTo(CounterTotals* totals) const {
  for (std::size_t method = 0; method < kMethods; ++method) {
    for (std::size_t code = 0; code < kCodes; ++code) totals->requests[method][code] += requests_[method][code].Get();
    request_time_[method].AddTo(&totals->request_time[method]);
  }
  queue_time_.AddTo(&totals->queue_time);
  batch_wait_.AddTo(&totals->batch_wait);
  execution_.AddTo(&totals->execution);
  lag_.AddTo(&totals->lag);
  batch_rows_.AddTo(&totals->batch_rows);
  batch_requests_.AddTo(&totals->batch_requests);
  batch_bytes_.AddTo(&totals->batch_bytes);
  for (std::size_t i = 0; i < kCloseReasons; ++i) totals->batches[i] += batches_[i].Get();
  for (std::size_t i = 0; i < kRefuseReasons; ++i) totals->rejected[i] += refused_[i].Get();
  for (std::size_t i = 0; i < kAnswerKinds; ++i) totals->answers[i] += answers_[i].Get();
  for (std::size_t i = 0; i < kCounters; ++i) totals->counters[i] += counters_[i].Get();
}

void ThreadCounters::AddTo(std::vector<Exemplar>* exemplars) const {
  MutexLock lock(mu_);
  for (const auto& of_method : exemplars_) {
    std::copy_if(of_method.begin(), of_method.end(), std::back_inserter(*exemplars),
                 [](const Exemplar& exemplar) { return !exemplar.trace_id.empty(); });
  }
}

}  // namespace softmax::server
