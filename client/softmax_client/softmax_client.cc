#include "client/softmax_client/softmax_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "client/softmax_client/async_call.h"
#include "client/softmax_client/callback_queue.h"
#include "client/softmax_client/client_core.h"
#include "client/softmax_client/options_check.h"
#include "client/softmax_client/stream.h"
#include "client/softmax_client/target.h"
#include "client/softmax_client/unary_call.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kLoanPatience(100);
constexpr std::chrono::milliseconds kReasonPatience(50);
constexpr std::chrono::nanoseconds kWatchInterval = std::chrono::milliseconds(50);

grpc::Status BlockingCall(UnaryCall& call, grpc::ClientContext* context, grpc::ByteBuffer* response) {
  const grpc::internal::RpcMethod method(call.method(), grpc::internal::RpcMethod::NORMAL_RPC);
  return grpc::internal::BlockingUnaryCall(call.channel().get(), method, context, call.message(), response);
}

// The same with a wait that is left now and then.
grpc::Status WatchedCall(UnaryCall& call, grpc::ClientContext* context, grpc::ByteBuffer* response,
                         const std::function<void()>& while_waiting) {
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(call.channel());
  grpc::Status status;
  {
    const auto reader = stub.PrepareUnaryCall(context, call.method(), call.message(), &queue);
    reader->StartCall();
    reader->Finish(response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kWatchInterval) ==
           grpc::CompletionQueue::TIMEOUT) {
      while_waiting();
    }
  }
  queue.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue.Next(&tag, &ok);) {
  }
  return status;
}

// One attempt on this thread. What is returned is the wait before the next.
std::optional<std::chrono::nanoseconds> Attempt(UnaryCall& call, const SoftmaxOptions& options) {
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  if (!call.BeginAttempt(&context)) return std::nullopt;
  const std::stop_callback cancel(options.cancel, [&context] { context.TryCancel(); });
  const grpc::Status status = options.while_waiting ? WatchedCall(call, &context, &response, options.while_waiting)
                                                    : BlockingCall(call, &context, &response);
  return call.EndAttempt(status, context, response);
}

// False: it was stopped before the time was over.
bool Pause(std::chrono::nanoseconds time, const SoftmaxOptions& options) {
  while (options.while_waiting && time > kWatchInterval) {
    if (!PauseInGrpc(kWatchInterval, options.cancel)) return false;
    options.while_waiting();
    time -= kWatchInterval;
  }
  return PauseInGrpc(time, options.cancel);
}

// Returns when the caller's memory is no longer referred to.
void Run(UnaryCall& call, const SoftmaxOptions& options) {
  while (const auto delay = Attempt(call, options)) {
    if (delay->count() > 0 && !Pause(*delay, options)) {
      call.EndCancelled();
      break;
    }
  }
  const std::shared_ptr<Loan> loan = call.ReleaseMessage();
  if (!loan || loan->WaitFor(kLoanPatience)) return;
  call.AbandonConnection();
  loan->Wait();
}

// Lives as its base's documentation says; holds no state of its own beside the parts.
class GrpcClient final : public Client {
 public:
  GrpcClient(ClientOptions options, std::vector<Address> addresses)
      : core_(std::move(options), std::move(addresses)), calls_(core_, queue_) {}

  absl::StatusOr<Tensor> Softmax(const TensorView& input, const SoftmaxOptions& options) override {
    absl::Status status = CheckRequest(input, options, core_.regions);
    if (!status.ok()) return status;
    UnaryCall call(core_, input, options);
    status = call.CheckLimits();
    if (!status.ok()) return status;
    Run(call, options);
    return call.TakeTensor();
  }

  absl::Status SoftmaxInto(const TensorView& input, std::span<std::byte> output, const SoftmaxOptions& options,
                           ServerTiming* timing) override {
    if (options.summary.any()) {
      return absl::InvalidArgumentError("summary: there is no place for it in the output; call Softmax");
    }
    if (output.empty() && !input.data.empty())
      return absl::InvalidArgumentError("output: 0 bytes, but the answer has some");
    SoftmaxOptions into = options;
    into.output = output;
    const auto answer = Softmax(input, into);
    if (answer.ok() && timing != nullptr) *timing = answer->timing();
    return answer.status();
  }

  void SoftmaxAsync(const TensorView& input, const SoftmaxOptions& options, Callback done) override {
    const absl::Status valid = CheckRequest(input, options, core_.regions);
    if (!valid.ok()) return done(valid);
    calls_.Start(input, options, std::move(done));
  }

  std::future<absl::StatusOr<Tensor>> SoftmaxFuture(const TensorView& input, const SoftmaxOptions& options) override {
    std::promise<absl::StatusOr<Tensor>> promise;
    auto future = promise.get_future();
    SoftmaxAsync(input, options, [promise = std::move(promise)](absl::StatusOr<Tensor> answer) mutable {
      promise.set_value(std::move(answer));
    });
    return future;
  }

  std::vector<absl::StatusOr<Tensor>> SoftmaxBatch(std::span<const BatchItem> items,
                                                   const BatchOptions& options) override {
    const absl::Status valid = CheckStream(options.max_in_flight, options.max_requests_per_message, options.timeout);
    if (valid.ok()) return RunBatch(core_, queue_, items, options);
    std::vector<absl::StatusOr<Tensor>> refused;
    for (std::size_t i = 0; i < items.size(); ++i) refused.emplace_back(valid);
    return refused;
  }

  absl::StatusOr<std::unique_ptr<Stream>> OpenStream(const StreamOptions& options, StreamCallback on_answer) override {
    const absl::Status valid = CheckStream(options.max_in_flight, options.max_requests_per_message, options.timeout);
    if (!valid.ok()) return valid;
    return MakeStream(core_, core_.pool.Next(), queue_, options, std::move(on_answer));
  }

  absl::StatusOr<ServerInfo> GetServerInfo(std::optional<std::chrono::nanoseconds> timeout) override {
    const absl::Status valid = CheckTimeout(timeout);
    if (!valid.ok()) return valid;
    return core_.AskServer(timeout.value_or(core_.options.deadline), core_.options.retry);
  }

  absl::Status WaitForConnection(std::chrono::nanoseconds timeout) override {
    // The end of the time is for a call: on a connection that has failed it says at once why.
    const auto to_ask = std::min<std::chrono::nanoseconds>(kReasonPatience, timeout / 2);
    if (core_.pool.WaitUntilReady(std::chrono::system_clock::now() + (timeout - to_ask))) return absl::OkStatus();
    const auto why = core_.AskServer(to_ask, {.max_attempts = 1});
    if (why.ok()) return absl::OkStatus();
    return absl::UnavailableError(core_.options.target + ": no connection within " +
                                  std::to_string(timeout.count() / 1000000) +
                                  " ms; at last: " + std::string(why.status().message()));
  }

  absl::StatusOr<Region> AllocateRegion(std::uint64_t bytes, Memory memory,
                                        std::optional<std::uint32_t> device) override {
    return core_.regions.Allocate(bytes, memory, device);
  }

  bool IsInRegion(std::span<const std::byte> bytes) const override {
    return static_cast<bool>(core_.regions.Find(bytes, 1));
  }

  ClientStats Stats() const override { return core_.counters.Read(); }

 private:
  ClientCore core_;
  CallbackQueue queue_;
  AsyncCalls calls_;  // last: ends before the queue that its calls wait on
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  auto addresses = ParseTarget(options.target);
  if (!addresses.ok()) return addresses.status();
  const absl::Status valid = CheckOptions(options, *addresses);
  if (!valid.ok()) return valid;
  return std::make_unique<GrpcClient>(std::move(options), *std::move(addresses));
}

}  // namespace softmax::client
