#pragma once

#include <absl/status/status.h>
#include <grpc/support/time.h>

#include <cstdint>

#include "server/base/clock.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"
#include "server/rpc/queue/message_view.h"
#include "server/wire/wire.h"

// What unary calls and streams do alike around a request.
namespace softmax::server {

// UNIMPLEMENTED, naming the encoding, unless the message came as identity.
absl::Status CheckEncoding(const MessageView& view);

absl::Status DrainingError();

// The call's deadline on the monotonic clock, from ServerContext's raw_deadline().
TimePoint DeadlineOf(gpr_timespec deadline);
// `timeout_us` after `arrived`; 0 is none.
TimePoint DeadlineAfter(TimePoint arrived, std::uint32_t timeout_us);

AnswerTiming TimingOf(const Answer& answer);
// `answer` may be null: the request did not run.
RequestSample SampleOf(Method method, int code, TimePoint arrived, TimePoint now, const Answer* answer);

}  // namespace softmax::server
