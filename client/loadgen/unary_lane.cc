#include <grpcpp/alarm.h>

#include <chrono>
#include <optional>

#include "client/loadgen/sender.h"
#include "client/softmax_client/channel.h"

namespace softmax::client {
namespace {

// In a closed loop a server that refuses is not asked again at once by the same slot.
constexpr std::chrono::milliseconds kPauseAfterRefusal(10);

bool IsRefusal(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

class UnaryLane;

// One unary call at a time.
class UnaryCall final : public Event {
 public:
  explicit UnaryCall(UnaryLane& lane) : lane_(lane) {}

  void Send(std::uint32_t variant, std::optional<std::int64_t> due_ns);
  void OnEvent(bool ok) override;
  void Cancel() {
    if (context_) context_->TryCancel();
  }

 private:
  void OnAnswer();
  void Pause();

  UnaryLane& lane_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  grpc::Alarm alarm_;
  Sent sent_;
  bool pausing_ = false;  // the event to come is the alarm's
};

// All calls of one connection. Idle ones are kept with the last used on top, whose memory is warm.
class UnaryLane final : public Lane {
 public:
  UnaryLane(SenderThread& thread, std::shared_ptr<grpc::Channel> channel, int capacity)
      : thread_(thread), stub_(std::move(channel)) {
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
    if (idle_.size() == calls_.size()) thread_.LaneDone();
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
    if (!sends && idle_.size() == calls_.size()) thread_.LaneDone();
  }
  // Whether this answer is to be verified: the first of each connection, then the sampled fraction.
  bool Verifies() {
    if (thread_.verifier() == nullptr || (first_verified_ && !thread_.Sample())) return false;
    first_verified_ = true;
    return true;
  }

  SenderThread& thread() { return thread_; }
  grpc::GenericStub& stub() { return stub_; }

 private:
  SenderThread& thread_;
  grpc::GenericStub stub_;
  std::vector<std::unique_ptr<UnaryCall>> calls_;
  std::vector<UnaryCall*> idle_;
  bool stopped_ = false;
  bool cancelled_ = false;
  bool first_verified_ = false;
};

void UnaryCall::Send(std::uint32_t variant, std::optional<std::int64_t> due_ns) {
  static const std::string kMethod = kSoftmaxMethod;
  SenderThread& thread = lane_.thread();
  const std::string& message = thread.workload().variants()[variant].message;
  // The workload outlives every call, so gRPC needs neither a copy nor a count of references.
  const grpc::Slice slice(message.data(), message.size(), grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer request(&slice, 1);
  reader_.reset();
  context_.emplace();
  if (thread.options().timeout.count() > 0) {
    context_->set_deadline(std::chrono::system_clock::now() + thread.options().timeout);
  }
  sent_.variant = variant;
  sent_.sent_ns = NowNs();
  sent_.due_ns = due_ns.value_or(sent_.sent_ns);
  thread.RecordSend(sent_);
  reader_ = lane_.stub().PrepareUnaryCall(&*context_, kMethod, request, thread.queue());
  reader_->StartCall();
  reader_->Finish(&response_, &status_, static_cast<Event*>(this));
}

void UnaryCall::OnEvent(bool /*ok*/) {
  bool refused = false;
  if (pausing_) {
    pausing_ = false;
  } else if (status_.ok()) {
    OnAnswer();
    response_.Clear();  // an idle call of an open loop holds no memory
  } else {
    lane_.thread().RecordError(status_.error_code(), status_.error_message());
    refused = IsRefusal(status_.error_code());
  }
  if (!lane_.GoesOn()) return lane_.Free(this);
  if (refused) return Pause();
  Send(lane_.thread().NextVariant(), std::nullopt);
}

void UnaryCall::OnAnswer() {
  // A header of at most 256 bytes, then the tensor.
  const std::uint64_t expected = lane_.thread().workload().variants()[sent_.variant].answer_bytes;
  const std::uint64_t length = response_.Length();
  if (length < expected || length > expected + 256) {
    lane_.thread().RecordError(grpc::StatusCode::INTERNAL, "answer of " + std::to_string(length) + " bytes, expected " +
                                                               std::to_string(expected) + " and a header");
    return;
  }
  lane_.thread().RecordAnswer(sent_);
  if (!lane_.Verifies()) return;
  lane_.thread().verifier()->Submit(sent_.variant, response_);  // shares the bytes
}

void UnaryCall::Pause() {
  pausing_ = true;
  alarm_.Set(lane_.thread().queue(), std::chrono::system_clock::now() + kPauseAfterRefusal, static_cast<Event*>(this));
}

}  // namespace

std::unique_ptr<Lane> MakeUnaryLane(SenderThread& thread, std::shared_ptr<grpc::Channel> channel, int capacity) {
  return std::make_unique<UnaryLane>(thread, std::move(channel), capacity);
}

}  // namespace softmax::client
