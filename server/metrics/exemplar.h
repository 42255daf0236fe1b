#pragma once

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// One request of a histogram's bucket, by the trace that its caller has it in.
struct Exemplar {
  Method method = Method::kSoftmax;
  Nanoseconds value{0};
  std::string trace_id;  // 32 hex digits
  std::chrono::system_clock::time_point time;
};

}  // namespace softmax::server
