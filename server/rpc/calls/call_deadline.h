#pragma once

#include <grpc/support/time.h>

#include <cstdint>

#include "common/base/clock.h"

namespace softmax::server {

// A call's deadline on the steady clock, from its raw_deadline().
inline TimePoint DeadlineOf(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) >= 0) return kNoDeadline;
  // The clock that gRPC says deadlines by is the steady one: none has to be read.
  if (deadline.clock_type == GPR_CLOCK_MONOTONIC) {
    return TimePoint(Saturated(deadline.tv_sec, deadline.tv_nsec));
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return Later(SteadyClock::now(), Saturated(left.tv_sec, left.tv_nsec));
}

// `timeout_us` after `arrived`; 0 is none.
inline TimePoint DeadlineAfter(TimePoint arrived, std::uint32_t timeout_us) {
  return timeout_us == 0 ? kNoDeadline : Later(arrived, std::chrono::microseconds(timeout_us));
}

}  // namespace softmax::server
