#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include <algorithm>

#include "client/softmax_client/async_call.h"
#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/connection_pool.h"
#include "client/softmax_client/request.h"
#include "client/softmax_client/softmax_client.h"
#include "client/softmax_client/stream.h"
#include "softmax/v1/softmax.grpc.pb.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kLoanPatience(100);

std::chrono::system_clock::time_point DeadlineIn(std::chrono::nanoseconds timeout) {
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout);
}

ServerInfo FromMessage(const softmax::v1::GetServerInfoResponse& message) {
  ServerInfo info;
  info.version = message.version();
  info.build = message.build();
  info.backend = message.backend();
  info.devices.assign(message.devices().begin(), message.devices().end());
  for (const int dtype : message.dtypes()) info.dtypes.push_back(static_cast<DataType>(dtype));
  for (const int op : message.operations()) info.operations.push_back(static_cast<Operation>(op));
  const softmax::v1::Limits& limits = message.limits();
  info.limits.max_request_bytes = limits.max_request_bytes();
  info.limits.max_response_bytes = limits.max_response_bytes();
  info.limits.max_rank = limits.max_rank();
  info.limits.max_rows = limits.max_rows();
  info.limits.max_columns = limits.max_columns();
  info.limits.max_requests_per_stream_message = limits.max_requests_per_stream_message();
  info.limits.max_in_flight_per_stream = limits.max_in_flight_per_stream();
  info.degraded = message.degraded();
  info.unsafe_testing = message.unsafe_testing();
  return info;
}

// Lives as its base's documentation says; holds no state of its own beside the parts.
class GrpcClient final : public Client {
 public:
  explicit GrpcClient(ClientOptions options)
      : options_(std::move(options)), pool_(options_), calls_(options_.target, pool_, queue_) {}

  absl::StatusOr<Tensor> Softmax(const TensorView& input, const SoftmaxOptions& options) override {
    grpc::ByteBuffer response;
    absl::Status status = Call(input, options, &response);
    if (!status.ok()) return status;
    const ReceivedPieces received(response);
    ResponseFields fields;
    status = DecodeResponse(received.pieces(), &fields);
    if (!status.ok()) return WithTarget(options_.target, status);
    auto tensor = TakeTensor(received.pieces(), fields, options.output_dtype.value_or(input.dtype));
    if (!tensor.ok()) return WithTarget(options_.target, tensor.status());
    return tensor;
  }

  absl::Status SoftmaxInto(const TensorView& input, std::span<std::byte> output, const SoftmaxOptions& options,
                           ServerTiming* timing) override {
    const DataType dtype = options.output_dtype.value_or(input.dtype);
    const std::uint64_t expected = input.data.size() / SizeOf(input.dtype) * SizeOf(dtype);
    if (output.size() != expected) {
      return absl::InvalidArgumentError("output: " + std::to_string(output.size()) + " bytes, but the answer has " +
                                        std::to_string(expected));
    }
    grpc::ByteBuffer response;
    absl::Status status = Call(input, options, &response);
    if (!status.ok()) return status;
    const ReceivedPieces received(response);
    ResponseFields fields;
    status = DecodeResponse(received.pieces(), &fields);
    if (status.ok() && fields.code != 0) {
      status = absl::Status(static_cast<absl::StatusCode>(fields.code), fields.message);
    }
    if (status.ok() && (fields.dtype != static_cast<std::uint64_t>(dtype) || fields.payload_bytes != output.size())) {
      status = absl::InternalError("the server's answer has another type or size than was asked for");
    }
    if (!status.ok()) return WithTarget(options_.target, status);
    CopyFromPieces(received.pieces(), fields.payload_offset, output.size(), output.data());
    if (timing != nullptr) *timing = fields.timing;
    return absl::OkStatus();
  }

  void SoftmaxAsync(const TensorView& input, const SoftmaxOptions& options, Callback done) override {
    const absl::Status valid = CheckRequest(input, options);
    if (!valid.ok()) return done(valid);
    calls_.Start(input, options, options.timeout.value_or(options_.deadline), std::move(done));
  }

  absl::StatusOr<std::unique_ptr<Stream>> OpenStream(const StreamOptions& options, StreamCallback on_answer) override {
    if (options.max_in_flight < 1 || options.max_requests_per_message < 1) {
      return absl::InvalidArgumentError("max_in_flight and max_requests_per_message must be at least 1");
    }
    return MakeStream(options_.target, pool_.Next(), queue_, options, std::move(on_answer));
  }

  absl::StatusOr<ServerInfo> GetServerInfo() override {
    const auto stub = softmax::v1::SoftmaxService::NewStub(pool_.Next());
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(options_.deadline));
    softmax::v1::GetServerInfoResponse response;
    const grpc::Status status = stub->GetServerInfo(&context, {}, &response);
    if (!status.ok()) return WithTarget(options_.target, status);
    return FromMessage(response);
  }

  absl::Status WaitForConnection(std::chrono::nanoseconds timeout) override {
    const auto deadline = DeadlineIn(timeout);
    for (int i = 0; i < options_.connections; ++i) {
      if (!pool_.Next()->WaitForConnected(deadline)) {
        return absl::UnavailableError(options_.target + ": no connection within " +
                                      std::to_string(timeout.count() / 1000000) + " ms");
      }
    }
    return absl::OkStatus();
  }

 private:
  // One blocking call. Returns when the caller's memory is no longer referred to.
  absl::Status Call(const TensorView& input, const SoftmaxOptions& options, grpc::ByteBuffer* response) {
    const absl::Status valid = CheckRequest(input, options);
    if (!valid.ok()) return valid;
    auto channel = pool_.Next();
    OutgoingRequest request = MakeRequest(input, options, 0, Framing::kUnary);
    grpc::Status status;
    {
      const grpc::ByteBuffer message(request.slices.data(), request.slices.size());
      request.slices.clear();
      grpc::ClientContext context;
      context.set_deadline(DeadlineIn(options.timeout.value_or(options_.deadline)));
      const grpc::internal::RpcMethod method(kSoftmaxMethod, grpc::internal::RpcMethod::NORMAL_RPC);
      status = grpc::internal::BlockingUnaryCall(channel.get(), method, &context, message, response);
    }
    if (request.loan && !request.loan->WaitFor(kLoanPatience)) {
      pool_.Abandon(channel);
      channel.reset();
      request.loan->Wait();
    }
    return WithTarget(options_.target, status);
  }

  const ClientOptions options_;
  ConnectionPool pool_;
  CallbackQueue queue_;
  AsyncCalls calls_;  // last: ends before the queue that its calls wait on
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (options.target.empty()) return absl::InvalidArgumentError("target: is empty");
  if (options.connections < 1 || options.connections > 1024) {
    return absl::InvalidArgumentError("connections: " + std::to_string(options.connections) + ", must be 1 to 1024");
  }
  if (options.deadline.count() <= 0) {
    return absl::InvalidArgumentError("deadline: must be above 0");
  }
  return std::make_unique<GrpcClient>(std::move(options));
}

}  // namespace softmax::client
