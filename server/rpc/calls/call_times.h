#pragma once

#include <absl/status/status.h>
#include <grpc/support/time.h>

#include <cstdint>

#include "common/base/clock.h"
#include "common/wire/encode.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// A call's deadline on the steady clock, from its raw_deadline().
inline TimePoint DeadlineOf(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) >= 0) return kNoDeadline;
  // The clock that gRPC says deadlines by is the steady one: none has to be read.
  if (deadline.clock_type == GPR_CLOCK_MONOTONIC) return TimePoint(Saturated(deadline.tv_sec, deadline.tv_nsec));
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return Later(SteadyClock::now(), Saturated(left.tv_sec, left.tv_nsec));
}

// `timeout_us` after `arrived`; 0 is none.
inline TimePoint DeadlineAfter(TimePoint arrived, std::uint32_t timeout_us) {
  return timeout_us == 0 ? kNoDeadline : Later(arrived, std::chrono::microseconds(timeout_us));
}

// A request's times as its caller is told them.
inline AnswerTiming TimingOf(const Answer& answer) {
  return {.queue_ns = static_cast<std::uint64_t>(answer.queue.count()),
          .batch_ns = static_cast<std::uint64_t>(answer.batch.count()),
          .execution_ns = static_cast<std::uint64_t>(answer.execution.count()),
          .batch_rows = answer.batch_rows};
}

// What the caller is told of a request that is complete.
inline absl::Status StatusOf(const Answer& answer, TimePoint deadline, TimePoint now) {
  if (!answer.status.ok() || deadline > now) return answer.status;
  return absl::DeadlineExceededError("the deadline passed while the request ran");
}

// A request as it is counted at its end. `status` is what its caller gets; `answer` may be null: it did not run.
inline RequestSample SampleOf(Method method, const absl::Status& status, TimePoint arrived, TimePoint now,
                              const Answer* answer) {
  RequestSample sample{.method = method, .code = CodeNumber(status), .arrived = arrived, .total = now - arrived};
  if (answer != nullptr && answer->ran) {
    sample.queue = answer->queue;
    sample.batch = answer->batch;
    sample.ran = true;
  }
  return sample;
}

}  // namespace softmax::server
