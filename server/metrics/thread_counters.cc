#include "server/metrics/thread_counters.h"

#include <algorithm>

namespace softmax::server {
namespace {

constexpr std::size_t kUnknownCode = 2;  // grpc::StatusCode::UNKNOWN

// A clock read on two cores may come out a little negative.
std::uint64_t Count(Nanoseconds time) { return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)); }

}  // namespace

void ThreadCounters::RequestArrived(Method) { arrived_.Add(1); }

void ThreadCounters::RequestFinished(const RequestSample& sample) {
  const auto method = static_cast<std::size_t>(sample.method);
  const auto code = static_cast<std::size_t>(sample.code);
  requests_[method][code < kCodes ? code : kUnknownCode].Add(1);
  request_time_[method].Observe(Count(sample.total));
  if (sample.ran) {
    queue_time_.Observe(Count(sample.queue));
    batch_wait_.Observe(Count(sample.batch));
  }
}

void ThreadCounters::RequestRefused(RefuseReason reason) { refused_[static_cast<std::size_t>(reason)].Add(1); }

void ThreadCounters::BatchFinished(const BatchSample& sample) {
  batches_[static_cast<std::size_t>(sample.reason)].Add(1);
  batch_rows_.Observe(sample.rows);
  batch_requests_.Observe(sample.requests);
  batch_bytes_.Observe(sample.input_bytes + sample.output_bytes);
  execution_.Observe(Count(sample.execution));
  for (std::size_t i = 0; i < kAnswerKinds; ++i) answers_[i].Add(sample.answers[i]);
  saved_bytes_.Add(sample.saved_bytes);
  input_bytes_.Add(sample.input_bytes);
  output_bytes_.Add(sample.output_bytes);
}

void ThreadCounters::PayloadCopiedIn(std::uint64_t bytes) { copied_in_.Add(bytes); }

void ThreadCounters::PayloadCopiedOut(std::uint64_t bytes) { copied_out_.Add(bytes); }

void ThreadCounters::CameLate(Nanoseconds late) { lag_.Observe(Count(late)); }

void ThreadCounters::AddTo(CounterTotals* totals) const {
  for (std::size_t method = 0; method < kMethods; ++method) {
    for (std::size_t code = 0; code < kCodes; ++code) {
      const std::uint64_t count = requests_[method][code].Get();
      totals->requests[method][code] += count;
      totals->finished += count;
    }
    request_time_[method].AddTo(&totals->request_time[method]);
  }
  queue_time_.AddTo(&totals->queue_time);
  batch_wait_.AddTo(&totals->batch_wait);
  execution_.AddTo(&totals->execution);
  lag_.AddTo(&totals->lag);
  batch_rows_.AddTo(&totals->batch_rows);
  batch_requests_.AddTo(&totals->batch_requests);
  batch_bytes_.AddTo(&totals->batch_bytes);
  for (std::size_t i = 0; i < kCloseReasons; ++i) {
    totals->batches[i] += batches_[i].Get();
  }
  for (std::size_t i = 0; i < kRefuseReasons; ++i) {
    totals->rejected[i] += refused_[i].Get();
  }
  for (std::size_t i = 0; i < kAnswerKinds; ++i) totals->answers[i] += answers_[i].Get();
  totals->saved_bytes += saved_bytes_.Get();
  totals->input_bytes += input_bytes_.Get();
  totals->output_bytes += output_bytes_.Get();
  totals->copied_in += copied_in_.Get();
  totals->copied_out += copied_out_.Get();
  totals->arrived += arrived_.Get();
}

}  // namespace softmax::server
