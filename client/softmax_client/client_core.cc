#include "client/softmax_client/client_core.h"

#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include <algorithm>

#include "client/softmax_client/options_check.h"
#include "client/softmax_client/wire.h"
#include "common/base/traceparent.h"

namespace softmax::client {
namespace {

// How long the server may take to answer about regions.
constexpr std::chrono::seconds kPatience(5);

absl::Status AddTrace(const TraceContext& trace, grpc::ClientContext* context) {
  if (trace.traceparent.empty()) return absl::OkStatus();  // W3C: no tracestate without one
  if (CheckedTraceparent(trace.traceparent) != trace.traceparent) {
    return absl::InvalidArgumentError(
        "trace.traceparent: must be as 00-<32 hex digits>-<16>-<2>, without ids of zeros");
  }
  context->AddMetadata("traceparent", trace.traceparent);
  if (trace.tracestate.empty()) return absl::OkStatus();
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::all_of(trace.tracestate.begin(), trace.tracestate.end(), printable)) {
    return absl::InvalidArgumentError("trace.tracestate: must be of printable ASCII characters");
  }
  context->AddMetadata("tracestate", trace.tracestate);
  return absl::OkStatus();
}

}  // namespace

ClientCore::ClientCore(ClientOptions client_options, std::vector<Address> addresses)
    : options(std::move(client_options)),
      pool(options, std::move(addresses)),
      budget(options.retry),
      regions([this] { return RegionsSocket(); }, std::min<std::chrono::nanoseconds>(options.deadline, kPatience)) {
  if (options.regions != RegionUse::kAuto || !pool.has_one_address()) return;
  if (options.regions_socket.empty() && !IsOnThisMachine(options.target)) return;
  region_pool = std::make_shared<RegionPool>(regions, options.regions_pool_bytes);
  region_pool->Start();
}

ClientCore::~ClientCore() {
  if (region_pool) region_pool->Close();
}

absl::Status ClientCore::Prepare(grpc::ClientContext* context, std::optional<RetryPlan::Clock::time_point> deadline,
                                 const TraceContext& trace) const {
  if (deadline) context->set_deadline(std::chrono::system_clock::now() + (*deadline - RetryPlan::Clock::now()));
  if (absl::Status status = AddTrace(trace, context); !status.ok()) return status;
  if (!options.bearer_token) return absl::OkStatus();
  const std::string token = options.bearer_token();
  absl::Status status = CheckHeaderText("bearer_token", token);
  if (status.ok()) context->AddMetadata("authorization", "Bearer " + token);
  return status;
}

absl::StatusOr<ServerInfo> ClientCore::AskServer(std::chrono::nanoseconds timeout, const RetryOptions& retry) {
  const auto deadline = RetryPlan::Clock::now() + timeout;
  RetryPlan plan(retry, budget, deadline);
  const grpc::Slice empty;
  const grpc::ByteBuffer question(&empty, 1);
  const grpc::internal::RpcMethod method(kGetServerInfoMethod, grpc::internal::RpcMethod::NORMAL_RPC);
  Resends resends;
  std::size_t avoid = kAvoidNone;
  for (;;) {
    const Connection connection = pool.Next(avoid);
    avoid = connection.address;
    grpc::ClientContext context;
    const absl::Status prepared = Prepare(&context, deadline);
    if (!prepared.ok()) return prepared;
    grpc::ByteBuffer answer;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall(connection.channel.get(), method, &context, question, &answer);
    if (status.ok()) {
      const auto info = DecodeServerInfo(ReceivedPieces(answer).pieces());
      if (!info) return absl::InternalError(pool.AddressOf(connection) + ": its GetServerInfo cannot be decoded");
      server.Learn(pool.AddressOf(connection), *info, RetryPlan::Clock::now());
      return *info;
    }
    const absl::Status failed = StatusOf({status, context, connection}, timeout);
    auto delay = IsUnseen(failed) ? resends.Next(RandomFraction()) : std::nullopt;
    if (!delay) {
      const AttemptFailure failure = FailureOf(failed.code(), RetryAdviceOf(failed));
      delay = plan.NextDelay(failure, RetryPlan::Clock::now(), RandomFraction());
    }
    if (!delay) return plan.WithAttemptCount(failed);
    PauseInGrpc(*delay, {});
  }
}

absl::StatusOr<std::string> ClientCore::RegionsSocket() {
  const std::string& target = options.target;
  if (!pool.has_one_address()) {
    return absl::FailedPreconditionError(target + ": regions need a target that is one server");
  }
  if (!options.regions_socket.empty()) return options.regions_socket;
  if (!IsOnThisMachine(target)) {
    return absl::FailedPreconditionError(
        target +
        ": regions need a target that is this machine (unix:, localhost or a loopback address), or "
        "regions_socket set to its --regions-socket");
  }
  const auto info = AskServer(std::min<std::chrono::nanoseconds>(options.deadline, kPatience), options.retry);
  if (!info.ok()) return info.status();
  if (info->regions) return info->regions->socket;
  return absl::UnimplementedError(target + ": the server shares no memory (--regions-socket)");
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
