#pragma once

#include <absl/status/status.h>

#include "common/base/clock.h"
#include "common/wire/encode.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// A request's times as its caller is told them.
inline AnswerTiming TimingOf(const Answer& answer) {
  AnswerTiming timing;
  timing.queue_ns = static_cast<std::uint64_t>(answer.queue.count());
  timing.batch_ns = static_cast<std::uint64_t>(answer.batch.count());
  timing.execution_ns = static_cast<std::uint64_t>(answer.execution.count());
  timing.batch_rows = answer.batch_rows;
  return timing;
}

// What the caller is told of a request that is complete.
inline absl::Status StatusOf(const Answer& answer, TimePoint deadline, TimePoint now) {
  if (!answer.status.ok() || deadline > now) return answer.status;
  return absl::DeadlineExceededError("the deadline passed while the request ran");
}

// A request as it is counted at its end. `status` is what its caller gets; `answer` may be null: it did not run.
inline RequestSample SampleOf(Method method, const absl::Status& status, TimePoint arrived, TimePoint now,
                              const Answer* answer) {
  RequestSample sample;
  sample.method = method;
  sample.code = CodeNumber(status);
  sample.arrived = arrived;
  sample.total = now - arrived;
  if (answer != nullptr && answer->ran) {
    sample.queue = answer->queue;
    sample.batch = answer->batch;
    sample.ran = true;
  }
  return sample;
}

}  // namespace softmax::server
