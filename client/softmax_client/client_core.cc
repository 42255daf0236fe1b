#include "client/softmax_client/client_core.h"

#include "client/softmax_client/header_text.h"

namespace softmax::client {

absl::Status ClientCore::Prepare(grpc::ClientContext* context,
                                 std::optional<RetryPlan::Clock::time_point> deadline) const {
  if (deadline) context->set_deadline(std::chrono::system_clock::now() + (*deadline - RetryPlan::Clock::now()));
  if (!options.bearer_token) return absl::OkStatus();
  const std::string token = options.bearer_token();
  absl::Status status = CheckHeaderText("bearer_token", token);
  if (status.ok()) context->AddMetadata("authorization", "Bearer " + token);
  return status;
}

absl::Status ClientCore::StatusOf(const Ended& ended, std::optional<std::chrono::nanoseconds> timeout) {
  absl::Status status = Explain(pool, ended, timeout);
  if (!status.ok()) pool.RenewIfLost(ended.connection);
  return status;
}

AttemptFailure ClientCore::FailureOf(absl::StatusCode code, std::optional<std::int64_t> pushback_ms) {
  return {code, pushback_ms,
          options.wait_for_ready && code == absl::StatusCode::kUnavailable && !pushback_ms && !pool.AnyReady()};
}

}  // namespace softmax::client
