#include "client/softmax_client/fetch_server_info.h"

#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include "client/softmax_client/channel.h"
#include "client/softmax_client/failure.h"
#include "client/softmax_client/pause_in_grpc.h"
#include "client/softmax_client/server_info.h"

namespace softmax::client {

absl::StatusOr<ServerInfo> AskServer(ClientCore& core, std::chrono::nanoseconds timeout, const RetryOptions& retry) {
  const auto deadline = RetryPlan::Clock::now() + timeout;
  RetryPlan plan(retry, core.budget, deadline);
  const grpc::Slice empty;
  const grpc::ByteBuffer question(&empty, 1);
  const grpc::internal::RpcMethod method(kGetServerInfoMethod, grpc::internal::RpcMethod::NORMAL_RPC);
  Resends resends;
  std::size_t avoid = kAvoidNone;
  for (;;) {
    const Connection connection = core.pool.Next(avoid);
    avoid = connection.address;
    grpc::ClientContext context;
    const absl::Status prepared = core.Prepare(&context, deadline);
    if (!prepared.ok()) return prepared;
    grpc::ByteBuffer answer;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall(connection.channel.get(), method, &context, question, &answer);
    if (status.ok()) {
      const auto info = DecodeServerInfo(ReceivedPieces(answer).pieces());
      if (!info) return absl::InternalError(core.pool.AddressOf(connection) + ": its GetServerInfo cannot be decoded");
      core.server.Learn(core.pool.AddressOf(connection), *info, RetryPlan::Clock::now());
      return *info;
    }
    const absl::Status failed = core.StatusOf({status, context, connection}, timeout);
    auto delay = IsUnseen(failed) ? resends.Next(RandomFraction()) : std::nullopt;
    if (!delay) {
      const AttemptFailure failure = core.FailureOf(failed.code(), RetryAdviceOf(failed));
      delay = plan.NextDelay(failure, RetryPlan::Clock::now(), RandomFraction());
    }
    if (!delay) return plan.WithAttemptCount(failed);
    PauseInGrpc(*delay, {});
  }
}

}  // namespace softmax::client
