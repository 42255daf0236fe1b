#include "client/softmax_client/async_call.h"

#include <optional>

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kLoanCheck(2);
// A loan that outlasts its call for so long is stuck in a socket that nobody reads.
constexpr int kChecksBeforeAbandon = 50;

}  // namespace

// One call. Owns itself from Start to its callback; all but Start and Cancel runs on the callback
// thread.
class AsyncCall final : public QueueEvent {
 public:
  AsyncCall(AsyncCalls& owner, Callback done)
      : owner_(owner), channel_(owner.pool_.Next()), stub_(channel_), done_(std::move(done)) {}

  void Start(const TensorView& input, const SoftmaxOptions& options, std::chrono::nanoseconds timeout) {
    expected_dtype_ = options.output_dtype.value_or(input.dtype);
    context_.emplace();
    context_->set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
    OutgoingRequest request = MakeRequest(input, options, 0, Framing::kUnary);
    loan_ = std::move(request.loan);
    const grpc::ByteBuffer message(request.slices.data(), request.slices.size());
    reader_ = stub_.PrepareUnaryCall(&*context_, kSoftmaxMethod, message, owner_.queue_.Get());
    reader_->StartCall();
    reader_->Finish(&response_, &status_, static_cast<QueueEvent*>(this));
  }

  // The owner holds its lock, so the call is not being destroyed meanwhile.
  void Cancel() {
    std::lock_guard lock(context_mu_);
    if (context_) context_->TryCancel();
  }

  void OnEvent(bool /*ok*/) override {
    if (!result_) {
      result_ = TakeResult();
      // Drops every reference to the caller's memory that the call itself holds.
      reader_.reset();
      std::lock_guard lock(context_mu_);
      context_.reset();
    }
    if (loan_ && !loan_->Ended()) {
      if (++loan_checks_ == kChecksBeforeAbandon) {
        owner_.pool_.Abandon(channel_);
        stub_ = grpc::GenericStub(nullptr);
        channel_.reset();
      }
      alarm_.Set(owner_.queue_.Get(), std::chrono::system_clock::now() + kLoanCheck, static_cast<QueueEvent*>(this));
      return;
    }
    done_(*std::move(result_));
    done_ = nullptr;  // what it captured goes before the client's end may be waiting for us
    owner_.Remove(this);
  }

 private:
  absl::StatusOr<Tensor> TakeResult() {
    if (!status_.ok()) return WithTarget(owner_.target_, status_);
    const ReceivedPieces received(response_);
    ResponseFields fields;
    const absl::Status decoded = DecodeResponse(received.pieces(), &fields);
    if (!decoded.ok()) return WithTarget(owner_.target_, decoded);
    auto tensor = TakeTensor(received.pieces(), fields, expected_dtype_);
    if (!tensor.ok()) return WithTarget(owner_.target_, tensor.status());
    return tensor;
  }

  AsyncCalls& owner_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  Callback done_;
  DataType expected_dtype_ = DataType::kFloat32;
  std::mutex context_mu_;
  std::optional<grpc::ClientContext> context_;  // its end is guarded by context_mu_
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  std::shared_ptr<Loan> loan_;
  int loan_checks_ = 0;
  std::optional<absl::StatusOr<Tensor>> result_;  // there from the end of the call
  grpc::Alarm alarm_;
};

void AsyncCalls::Start(const TensorView& input, const SoftmaxOptions& options, std::chrono::nanoseconds timeout,
                       Callback done) {
  auto* call = new AsyncCall(*this, std::move(done));
  {
    std::lock_guard lock(mu_);
    calls_.insert(call);
  }
  call->Start(input, options, timeout);
}

void AsyncCalls::Remove(AsyncCall* call) {
  std::lock_guard lock(mu_);
  calls_.erase(call);
  delete call;
  if (calls_.empty()) empty_.notify_all();
}

AsyncCalls::~AsyncCalls() {
  std::unique_lock lock(mu_);
  for (AsyncCall* call : calls_) call->Cancel();
  empty_.wait(lock, [this] { return calls_.empty(); });
}

}  // namespace softmax::client
