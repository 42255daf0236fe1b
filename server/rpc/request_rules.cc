#include "server/rpc/request_rules.h"

#include <absl/strings/str_cat.h>
#include <grpc/support/time.h>

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

TimePoint DeadlineOf(const grpc::ServerContextBase& context) {
  // Most callers set none, and clocks are read for nothing then.
  if (gpr_time_cmp(context.raw_deadline(), gpr_inf_future(context.raw_deadline().clock_type)) >= 0) return kNoDeadline;
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) >= 0) return kNoDeadline;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
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
