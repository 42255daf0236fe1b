#pragma once

#include <chrono>

namespace softmax::server {

// All times inside the server are on the monotonic clock; gRPC deadlines are converted on arrival.
using SteadyClock = std::chrono::steady_clock;
using TimePoint = SteadyClock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

constexpr TimePoint kNoDeadline = TimePoint::max();

}  // namespace softmax::server
