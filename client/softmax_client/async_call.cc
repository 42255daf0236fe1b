#include "client/softmax_client/async_call.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "client/softmax_client/unary_call.h"

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
  AsyncCall(AsyncCalls& owner, Callback done) : owner_(owner), done_(std::move(done)) {}

  // False: it ended before it was sent, and must be thrown away.
  bool Start(const TensorView& input, const SoftmaxOptions& options) {
    call_.emplace(owner_.core_, input, options);
    const absl::Status known = call_->CheckLimits();
    if (!known.ok()) {
      done_(known);
      return false;
    }
    if (options.cancel.stop_possible()) on_stop_.emplace(options.cancel, [this] { Cancel(); });
    StartAttempt();
    return true;
  }

  // Whoever calls it sees to it that the call is not being destroyed meanwhile.
  void Cancel() {
    MutexLock lock(mu_);
    cancelled_ = true;
    if (context_) context_->TryCancel();
    if (pausing_) alarm_.Cancel();
  }

  void OnEvent(bool /*ok*/) override {
    if (std::exchange(pausing_event_, false)) return AfterPause();
    if (!ended_ && !EndAttempt()) return;
    if (loan_ && !loan_->Ended()) return AwaitLoan();
    on_stop_.reset();  // waits for a Cancel that is running
    auto result = call_->TakeTensor();
    call_.reset();
    done_(std::move(result));
    done_ = nullptr;  // what it captured goes before the client's end may be waiting for us
    owner_.Remove(this);
  }

 private:
  // On the last line the call may end on the callback thread, and `this` with it.
  void StartAttempt() {
    response_.Clear();
    bool begun = false;
    {
      MutexLock lock(mu_);
      context_.emplace();
      begun = call_->BeginAttempt(&*context_);
      if (!begun) context_.reset();
      if (begun && cancelled_) context_->TryCancel();
    }
    if (!begun) return EndUnsent();
    stub_.emplace(call_->channel());
    reader_ = stub_->PrepareUnaryCall(&*context_, call_->method(), call_->message(), owner_.queue_.Get());
    reader_->StartCall();
    reader_->Finish(&response_, &status_, static_cast<QueueEvent*>(this));
  }

  // The callback runs on the callback thread also when Start comes here. On the last line the call may end.
  void EndUnsent() {
    ended_ = true;
    loan_ = call_->ReleaseMessage();
    alarm_.Set(owner_.queue_.Get(), std::chrono::system_clock::now(), static_cast<QueueEvent*>(this));
  }

  // Whether the call has ended with it.
  bool EndAttempt() {
    const auto delay = call_->EndAttempt(status_, *context_, response_);
    // Drops every reference to the caller's memory that the attempt itself holds.
    reader_.reset();
    bool cancelled = false;
    {
      MutexLock lock(mu_);
      context_.reset();
      cancelled = cancelled_;
      if (delay && !cancelled) {
        pausing_ = pausing_event_ = true;
        alarm_.Set(owner_.queue_.Get(), std::chrono::system_clock::now() + *delay, static_cast<QueueEvent*>(this));
        return false;
      }
    }
    if (delay) call_->EndCancelled();
    ended_ = true;
    loan_ = call_->ReleaseMessage();
    return true;
  }

  void AfterPause() {
    {
      MutexLock lock(mu_);
      pausing_ = false;
    }
    StartAttempt();
  }

  void AwaitLoan() {
    if (++loan_checks_ == kChecksBeforeAbandon) {
      stub_.reset();
      call_->AbandonConnection();
    }
    alarm_.Set(owner_.queue_.Get(), std::chrono::system_clock::now() + kLoanCheck, static_cast<QueueEvent*>(this));
  }

  AsyncCalls& owner_;
  Callback done_;
  std::optional<UnaryCall> call_;
  std::optional<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  std::shared_ptr<Loan> loan_;
  int loan_checks_ = 0;
  bool ended_ = false;
  bool pausing_event_ = false;  // the event to come is the alarm's before another attempt

  Mutex mu_;
  std::optional<grpc::ClientContext> context_;  // begins and ends under mu_; Cancel may use it in between
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool pausing_ ABSL_GUARDED_BY(mu_) = false;  // the alarm may be cut short
  grpc::Alarm alarm_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

void AsyncCalls::Start(const TensorView& input, const SoftmaxOptions& options, Callback done) {
  auto call = std::make_unique<AsyncCall>(*this, std::move(done));
  AsyncCall* const started = call.get();
  {
    MutexLock lock(mu_);
    calls_.insert(call.release());
  }
  if (!started->Start(input, options)) Remove(started);
}

void AsyncCalls::Remove(AsyncCall* call) {
  MutexLock lock(mu_);
  calls_.erase(call);
  delete call;
  if (calls_.empty()) empty_.notify_all();
}

AsyncCalls::~AsyncCalls() {
  MutexLock lock(mu_);
  for (AsyncCall* call : calls_) call->Cancel();
  while (!calls_.empty()) empty_.wait(mu_);
}

}  // namespace softmax::client
