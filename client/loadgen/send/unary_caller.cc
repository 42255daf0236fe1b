#include <grpcpp/alarm.h>

#include <chrono>
#include <optional>
#include <utility>

#include "client/loadgen/plan/oip_message.h"
#include "client/loadgen/send/sender.h"
#include "client/softmax_client/channel.h"
#include "client/softmax_client/failure.h"
#include "client/softmax_client/retry.h"

namespace softmax::client {
namespace {

// In a closed loop a server that refuses is not asked again at once by the same slot.
constexpr std::chrono::milliseconds kPauseAfterRefusal(10);

bool IsRefusal(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

class UnaryCaller;

// One request at a time, through all its attempts.
class UnaryCall final : public QueueEvent {
 public:
  explicit UnaryCall(UnaryCaller& caller);

  void Send(std::uint32_t variant, std::optional<std::int64_t> due_ns);
  void OnEvent(bool ok) override;
  void Cancel() {
    if (context_) context_->TryCancel();
    if (waits_for_ != WaitsFor::kAnswer) alarm_.Cancel();
  }

 private:
  // What the next event tells.
  enum class WaitsFor { kAnswer, kNextAttempt, kNextRequest };

  void Begin(std::size_t connection);
  // Books the answer, or the failure of a request that is not sent again. False: it is, after a pause.
  bool OnAttemptEnd();
  void TakeAnswer();
  // What is wrong with the answer's size; empty: nothing.
  std::string SizeProblem() const;
  bool PlansRetry(int code);
  bool PlansResend();
  void Pause(std::chrono::nanoseconds time, WaitsFor then);

  UnaryCaller& caller_;
  RegionSlot slot_;  // with --regions
  bool verifies_ = false;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  grpc::Alarm alarm_;
  Sent sent_;
  std::chrono::system_clock::time_point deadline_;  // where there is one
  std::optional<RetryPlan> plan_;
  Resends resends_;
  std::size_t connection_ = 0;  // of the last attempt
  WaitsFor waits_for_ = WaitsFor::kAnswer;
};

// All calls that one connection has room for. Idle ones are kept with the last used on top, whose memory is warm.
class UnaryCaller final : public Caller {
 public:
  UnaryCaller(SenderThread& thread, std::size_t home, int capacity) : Caller(thread, home) {
    for (int i = 0; i < capacity; ++i) {
      calls_.push_back(std::make_unique<UnaryCall>(*this));
      idle_.push_back(calls_.back().get());
    }
  }

  void Start() override {
    if (thread_.options().loop == Loop::kOpen) return;
    idle_.clear();
    for (auto& call : calls_) call->Send(thread_.NextVariant(), std::nullopt);
  }

  bool Send(std::uint32_t variant, std::int64_t due_ns) override {
    if (idle_.empty()) return false;
    UnaryCall* call = idle_.back();
    idle_.pop_back();
    call->Send(variant, due_ns);
    return true;
  }

  void Stop() override {
    stopped_ = true;
    if (idle_.size() == calls_.size()) thread_.CallerDone();
  }

  void Cancel() override {
    cancelled_ = true;
    for (auto& call : calls_) call->Cancel();
  }

  // Whether a call of a closed loop goes on.
  bool GoesOn() const { return thread_.options().loop == Loop::kClosed && !cancelled_ && !thread_.Ended(NowNs()); }
  void Free(UnaryCall* call) {
    idle_.push_back(call);
    const bool sends = thread_.options().loop == Loop::kOpen && !stopped_;
    if (!sends && idle_.size() == calls_.size()) thread_.CallerDone();
  }

  using Caller::Verifies;
  SenderThread& thread() { return thread_; }
  std::size_t home() const { return home_; }
  bool cancelled() const { return cancelled_; }

 private:
  std::vector<std::unique_ptr<UnaryCall>> calls_;
  std::vector<UnaryCall*> idle_;
};

UnaryCall::UnaryCall(UnaryCaller& caller) : caller_(caller) {
  if (caller.thread().region() != nullptr) slot_ = caller.thread().region()->TakeSlot();
}

void UnaryCall::Send(std::uint32_t variant, std::optional<std::int64_t> due_ns) {
  SenderThread& thread = caller_.thread();
  const LoadOptions& options = thread.options();
  if (options.timeout.count() > 0) deadline_ = std::chrono::system_clock::now() + options.timeout;
  if (thread.budget() != nullptr) {
    const auto limit =
        options.timeout.count() > 0 ? RetryPlan::Clock::now() + options.timeout : RetryPlan::Clock::time_point::max();
    plan_.emplace(thread.retry_options(), *thread.budget(), limit);
  }
  resends_ = {};
  const std::size_t connection = thread.ConnectionFor(caller_.home());
  sent_.variant = variant;
  sent_.sent_ns = NowNs();
  sent_.due_ns = due_ns.value_or(sent_.sent_ns);
  thread.RecordSend(sent_);
  if (thread.region() != nullptr) {
    verifies_ = !slot_.uncertain && caller_.Verifies();
    thread.region()->Begin(thread.workload().variants()[variant], verifies_, slot_);
  }
  Begin(connection);
}

void UnaryCall::Begin(std::size_t connection) {
  static const std::string kNative = kSoftmaxMethod;
  static const std::string kOip = kModelInferMethod;
  SenderThread& thread = caller_.thread();
  const std::string& method = thread.options().protocol == Protocol::kOip ? kOip : kNative;
  connection_ = connection;
  const Variant& variant = thread.workload().variants()[sent_.variant];
  // The workload outlives every call, so gRPC needs neither a copy nor a count of references.
  const grpc::Slice slice =
      thread.region() != nullptr
          ? grpc::Slice(thread.region()->Message(variant, variant.id, false, slot_))
          : grpc::Slice(variant.message.data(), variant.message.size(), grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer request(&slice, 1);
  reader_.reset();
  context_.emplace();
  if (thread.options().timeout.count() > 0) context_->set_deadline(deadline_);
  thread.Authorize(&*context_);
  thread.RecordAttempt(sent_, thread.connections()[connection].address);
  reader_ = thread.StubOf(connection).PrepareUnaryCall(&*context_, method, request, thread.queue());
  reader_->StartCall();
  reader_->Finish(&response_, &status_, static_cast<QueueEvent*>(this));
}

void UnaryCall::OnEvent(bool /*ok*/) {
  SenderThread& thread = caller_.thread();
  const WaitsFor what = std::exchange(waits_for_, WaitsFor::kAnswer);
  if (what == WaitsFor::kNextAttempt && !caller_.cancelled()) {
    return Begin(thread.ConnectionFor(caller_.home(), thread.connections()[connection_].address));
  }
  if (what == WaitsFor::kNextAttempt) {
    thread.RecordError(sent_, status_.error_code(), status_.error_message());
  } else if (what == WaitsFor::kAnswer && !OnAttemptEnd()) {
    return;
  }
  if (!caller_.GoesOn()) return caller_.Free(this);
  if (what == WaitsFor::kAnswer && IsRefusal(status_.error_code())) {
    return Pause(kPauseAfterRefusal, WaitsFor::kNextRequest);
  }
  Send(thread.NextVariant(), std::nullopt);
}

bool UnaryCall::OnAttemptEnd() {
  SenderThread& thread = caller_.thread();
  if (status_.ok()) {
    const std::string problem = SizeProblem();
    if (!problem.empty()) status_ = grpc::Status(grpc::StatusCode::INTERNAL, problem);
  }
  if (PlansResend()) return false;
  const int code = status_.error_code();
  if (code != 0) thread.RenewIfLost(connection_);
  if (code != 0) slot_.Failed(code);
  thread.RecordAttemptEnd(sent_, thread.connections()[connection_].address, code);
  if (code == 0) {
    TakeAnswer();
    return true;
  }
  if (PlansRetry(code)) return false;
  thread.RecordError(sent_, code, status_.error_message());
  return true;
}

void UnaryCall::TakeAnswer() {
  SenderThread& thread = caller_.thread();
  SendingRegion* const region = thread.region();
  const Variant& variant = thread.workload().variants()[sent_.variant];
  if (thread.budget() != nullptr) thread.budget()->OnSuccess();
  if (region != nullptr) region->End(variant, slot_);
  thread.RecordAnswer(sent_);
  std::optional<PlacedAnswer> placed;
  if (region == nullptr) verifies_ = caller_.Verifies();
  if (verifies_ && region != nullptr) placed = region->Answer(variant, slot_);
  if (verifies_)
    thread.verifier()->Submit({sent_.variant, response_, std::nullopt, std::move(placed)});  // shares bytes
  response_.Clear();  // an idle call of an open loop holds no memory
}

std::string UnaryCall::SizeProblem() const {
  const Variant& variant = caller_.thread().workload().variants()[sent_.variant];
  const std::uint64_t length = response_.Length();
  const std::uint64_t expected = caller_.thread().region() != nullptr ? 0 : variant.answer_bytes;
  if (length >= expected && length <= expected + variant.most_header_bytes) return "";
  return "answer of " + std::to_string(length) + " bytes, expected " + std::to_string(expected) + " and a header";
}

bool UnaryCall::PlansResend() {
  if (!IsUnseen(status_) || caller_.cancelled()) return false;
  const auto delay = resends_.Next(RandomFraction());
  if (!delay) return false;
  SenderThread& thread = caller_.thread();
  thread.RecordUnseen(sent_, thread.connections()[connection_].address);
  Pause(*delay, WaitsFor::kNextAttempt);
  return true;
}

// As the client library does it, so that its users' load is what is measured.
bool UnaryCall::PlansRetry(int code) {
  if (!plan_ || caller_.cancelled()) return false;
  const AttemptFailure failure{static_cast<absl::StatusCode>(code), RetryAdviceIn(*context_), false};
  const auto delay = plan_->NextDelay(failure, RetryPlan::Clock::now(), RandomFraction());
  if (plan_->throttled()) caller_.thread().RecordThrottled(sent_);
  if (!delay) return false;
  caller_.thread().RecordRetry(sent_, code);
  Pause(*delay, WaitsFor::kNextAttempt);
  return true;
}

void UnaryCall::Pause(std::chrono::nanoseconds time, WaitsFor then) {
  waits_for_ = then;
  alarm_.Set(caller_.thread().queue(), std::chrono::system_clock::now() + time, static_cast<QueueEvent*>(this));
}

}  // namespace

std::unique_ptr<Caller> MakeUnaryCaller(SenderThread& thread, std::size_t home, int capacity) {
  return std::make_unique<UnaryCaller>(thread, home, capacity);
}

}  // namespace softmax::client
