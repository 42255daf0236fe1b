#include "client/softmax_client/client_core.h"

namespace softmax::client {

void ClientCore::Prepare(grpc::ClientContext* context, std::optional<RetryPlan::Clock::time_point> deadline) const {
  if (deadline) {
    const std::chrono::nanoseconds left = *deadline - RetryPlan::Clock::now();
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
  }
  if (options.bearer_token) context->AddMetadata("authorization", "Bearer " + options.bearer_token());
}

AttemptFailure ClientCore::FailureOf(absl::StatusCode code, std::optional<std::int64_t> pushback_ms) {
  return {code, pushback_ms,
          options.wait_for_ready && code == absl::StatusCode::kUnavailable && !pushback_ms && !pool.AnyReady()};
}

}  // namespace softmax::client
