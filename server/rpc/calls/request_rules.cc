#include "server/rpc/calls/request_rules.h"

#include <absl/strings/str_cat.h>

namespace softmax::server {

absl::Status CheckEncoding(const MessageView& view) {
  const char* encoding = nullptr;
  switch (view.compression()) {
    case GRPC_COMPRESS_NONE:
      return absl::OkStatus();
    case GRPC_COMPRESS_GZIP:
      encoding = "gzip";
      break;
    case GRPC_COMPRESS_DEFLATE:
      encoding = "deflate";
      break;
    default:
      encoding = "unknown";
  }
  return absl::UnimplementedError(
      absl::StrCat("grpc-encoding: ", encoding, " is not accepted; send identity (no compression)"));
}

absl::Status DrainingError() { return absl::UnavailableError("the server is draining; another replica will serve"); }

TimePoint DeadlineOf(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) >= 0) return kNoDeadline;
  // The clock that gRPC says deadlines by is the steady one: none has to be read.
  if (deadline.clock_type == GPR_CLOCK_MONOTONIC) {
    return TimePoint(std::chrono::seconds(deadline.tv_sec) + Nanoseconds(deadline.tv_nsec));
  }
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return SteadyClock::now() + std::chrono::seconds(left.tv_sec) + Nanoseconds(left.tv_nsec);
}

TimePoint DeadlineAfter(TimePoint arrived, std::uint32_t timeout_us) {
  return timeout_us == 0 ? kNoDeadline : arrived + std::chrono::microseconds(timeout_us);
}

AnswerTiming TimingOf(const Answer& answer) {
  AnswerTiming timing;
  timing.queue_ns = static_cast<std::uint64_t>(answer.queue.count());
  timing.batch_ns = static_cast<std::uint64_t>(answer.batch.count());
  timing.execution_ns = static_cast<std::uint64_t>(answer.execution.count());
  timing.batch_rows = answer.batch_rows;
  return timing;
}

RequestSample SampleOf(Method method, int code, TimePoint arrived, TimePoint now, const Answer* answer) {
  RequestSample sample;
  sample.method = method;
  sample.code = code;
  sample.total = now - arrived;
  if (answer != nullptr && answer->ran) {
    sample.queue = answer->queue;
    sample.batch = answer->batch;
    sample.ran = true;
  }
  return sample;
}

}  // namespace softmax::server
