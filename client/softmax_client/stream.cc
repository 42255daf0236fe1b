#include "client/softmax_client/stream.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/softmax_client/failure.h"
#include "client/softmax_client/request.h"
#include "common/base/mutex.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kLoanCheck(1);
// A message that is this large is sent even if more requests wait.
constexpr std::size_t kMessageBytes = 1 << 20;

// Events run on the callback thread; Send, Finish and the destructor on the caller's. Callbacks run without the lock.
class GrpcStream final : public Stream {
 public:
  GrpcStream(ClientCore& core, const Connection& connection, CallbackQueue& queue, const StreamOptions& options,
             std::unique_ptr<grpc::ClientContext> context, StreamCallback on_answer)
      : core_(core),
        connection_(connection),
        target_(core.pool.AddressOf(connection)),
        queue_(queue.Get()),
        options_(options),
        on_answer_(std::move(on_answer)),
        stub_(connection.channel) {
    MutexLock lock(mu_);
    context_ = std::move(context);
    stream_ = stub_.PrepareCall(context_.get(), kSoftmaxStreamMethod, queue_);
    ++open_events_;
    stream_->StartCall(on_started_.tag());
  }

  ~GrpcStream() override {
    MutexLock lock(mu_);
    CancelLocked();
    closing_ = true;
    MaybeHalfClose();
    while (!ended_ || open_events_ > 0) changed_.wait(mu_);
  }

  absl::Status Send(std::uint64_t id, const TensorView& input, const SoftmaxOptions& options) override {
    absl::Status valid = CheckRequest(input, options, core_.regions);
    if (!valid.ok()) return valid;
    Placement callers = CallersPlacement(core_.regions, input, options);
    Placement placement = WithPool(core_, callers, input, options);
    MutexLock lock(mu_);
    if (closing_) return absl::FailedPreconditionError("the stream is finished");
    if (finishing_) return absl::UnavailableError(target_ + ": the stream has broken");
    if (pending_.size() >= options_.max_in_flight) {
      return absl::ResourceExhaustedError(std::to_string(pending_.size()) +
                                          " requests are unanswered, the stream's limit");
    }
    const auto [place, is_new] = pending_.try_emplace(id);
    if (!is_new) {
      return absl::AlreadyExistsError("id " + std::to_string(id) + " is still unanswered");
    }
    Pending& pending = place->second;
    pending.expected = ExpectedAnswer(input, options, placement);
    if (placement.pooled) {
      ++pooled_;
      pending.fallback = HeaderOf(input, options, callers, id, Framing::kStreamElement);
      pending.data = callers.InMessage(input.data);
      pending.callers = std::move(callers);
    }
    pending.placement = std::move(placement);
    SendLocked(HeaderOf(input, options, pending.placement, id, Framing::kStreamElement),
               pending.placement.InMessage(input.data), &pending);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    MutexLock lock(mu_);
    closing_ = true;
    MaybeHalfClose();
    while (!ended_) changed_.wait(mu_);
    return result_;
  }

  void Cancel() override {
    MutexLock lock(mu_);
    CancelLocked();
  }

 private:
  struct Pending {
    ExpectedAnswer expected;
    std::shared_ptr<Loan> loan;
    Placement placement;  // holds the regions
    // To do without the pool's part of it.
    std::string fallback;
    std::span<const std::byte> data;
    Placement callers;
  };
  // An answer whose request's memory gRPC still refers to.
  struct Late {
    std::uint64_t id = 0;
    absl::StatusOr<Tensor> answer;
    std::shared_ptr<Loan> loan;
  };

  // A step, and what every event ends with.
  template <void (GrpcStream::*Method)(bool)>
  void Do(bool ok) {
    (this->*Method)(ok);
    EventDone();
  }

  void SendLocked(std::string header, std::span<const std::byte> data, Pending* pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    OutgoingRequest request = WithTensor(std::move(header), data);
    pending->loan = std::move(request.loan);
    waiting_.push_back(std::move(request.slices));
    MaybeWrite();
  }

  void CancelLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    cancelled_ = true;
    if (context_) context_->TryCancel();
  }

  // The server does not keep to the protocol: the stream ends, and says why.
  void BreakLocked(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (broken_.ok()) broken_ = WithTarget(target_, why);
    CancelLocked();
  }

  // The last thing an event does: after it the stream may be gone.
  void EventDone() {
    MutexLock lock(mu_);
    --open_events_;
    changed_.notify_all();
  }

  void OnStarted(bool ok) {
    MutexLock lock(mu_);
    started_ = true;
    if (!ok) return AskForStatus();
    StartRead();
    MaybeWrite();
    MaybeHalfClose();
  }

  void StartRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ++open_events_;
    stream_->Read(&received_, on_read_.tag());
  }

  // Sends what waits, several requests in a message, unless a message is on its way.
  void MaybeWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!started_ || writing_ || waiting_.empty() || finishing_ || write_failed_) return;
    std::vector<grpc::Slice> slices;
    std::size_t bytes = 0;
    std::size_t requests = 0;
    while (!waiting_.empty() && requests < options_.max_requests_per_message && bytes < kMessageBytes) {
      for (grpc::Slice& slice : waiting_.front()) {
        bytes += slice.size();
        slices.push_back(std::move(slice));
      }
      waiting_.pop_front();
      ++requests;
    }
    writing_ = true;
    ++open_events_;
    stream_->Write(grpc::ByteBuffer(slices.data(), slices.size()), on_written_.tag());
  }

  void OnWritten(bool ok) {
    MutexLock lock(mu_);
    writing_ = false;
    write_failed_ = !ok;  // the read fails too, and ends the stream
    MaybeWrite();
    MaybeHalfClose();
    if (read_ended_) AskForStatus();
  }

  void MaybeHalfClose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!closing_ || !started_ || pooled_ > 0 || half_closed_ || writing_ || !waiting_.empty() || finishing_ ||
        write_failed_) {
      return;
    }
    half_closed_ = true;
    writing_ = true;
    ++open_events_;
    stream_->WritesDone(on_written_.tag());
  }

  void OnRead(bool ok) {
    if (!ok) {
      MutexLock lock(mu_);
      read_ended_ = true;
      return AskForStatus();
    }
    {
      const ReceivedPieces received(received_);
      std::vector<ResponseFields> responses;
      const absl::Status decoded = DecodeStreamResponse(received.pieces(), &responses);
      if (!decoded.ok()) {
        MutexLock lock(mu_);
        BreakLocked(decoded);
      }
      for (const ResponseFields& response : responses) {
        if (decoded.ok()) Answer(received.pieces(), response);
      }
    }
    MutexLock lock(mu_);
    received_.Clear();
    StartRead();
  }

  void Answer(Pieces message, const ResponseFields& fields) {
    Pending pending;
    {
      MutexLock lock(mu_);
      const auto place = pending_.find(fields.id);
      if (place == pending_.end()) {
        return BreakLocked(absl::InternalError("the server answered request " + std::to_string(fields.id) +
                                               ", which is not unanswered"));
      }
      pending = std::move(place->second);
      pending_.erase(place);
    }
    const absl::Status answered = CheckAnswer(fields, pending.expected);
    if (!answered.ok()) pending.placement.Failed(answered);
    if (pending.placement.pooled) {
      MutexLock lock(mu_);
      --pooled_;
      if (answered.code() == absl::StatusCode::kNotFound && !finishing_ && !write_failed_) {
        pending.expected.FallBack();
        pending.placement = std::move(pending.callers);
        Pending& again = pending_[fields.id] = std::move(pending);
        return SendLocked(again.fallback, again.data, &again);
      }
      MaybeHalfClose();
    }
    Deliver(fields.id,
            answered.ok() ? absl::StatusOr<Tensor>(TakeTensor(message, fields, pending.expected))
                          : WithTarget(target_, answered),
            std::move(pending.loan));
  }

  void Deliver(std::uint64_t id, absl::StatusOr<Tensor> answer, std::shared_ptr<Loan> loan) {
    if (!loan || loan->Ended()) return on_answer_(id, std::move(answer));
    MutexLock lock(mu_);
    late_.push_back({id, std::move(answer), std::move(loan)});
    SetAlarm();
  }

  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (alarm_set_) return;
    alarm_set_ = true;
    ++open_events_;
    alarm_.Set(queue_, std::chrono::system_clock::now() + kLoanCheck, on_alarm_.tag());
  }

  void OnAlarm(bool /*ok*/) {
    std::vector<Late> late;
    {
      MutexLock lock(mu_);
      alarm_set_ = false;
      late.swap(late_);
    }
    for (Late& one : late) Deliver(one.id, std::move(one.answer), std::move(one.loan));
    MutexLock lock(mu_);
    MaybeEnd();
  }

  // Once nothing is being written or read.
  void AskForStatus() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finishing_) return;
    finishing_ = true;
    ++open_events_;
    stream_->Finish(&status_, on_finished_.tag());
  }

  void OnFinished(bool /*ok*/) {
    std::unordered_map<std::uint64_t, Pending> unanswered;
    absl::Status result;
    {
      MutexLock lock(mu_);
      unanswered.swap(pending_);
      pooled_ = 0;
      waiting_.clear();
      if (status_.ok() && !unanswered.empty()) {
        // The server's status may have come in the moment of the cancellation, which drops the answers before it.
        status_ = cancelled_ ? grpc::Status(grpc::StatusCode::CANCELLED, "cancelled")
                             : grpc::Status(grpc::StatusCode::INTERNAL,
                                            "the server ended the stream with requests unanswered");
      }
      result_ = broken_.ok() ? core_.StatusOf({status_, *context_, connection_}, options_.timeout) : broken_;
      result = result_;
      // With the call goes every reference to callers' memory that is not on its way into the
      // socket.
      stream_.reset();
      context_.reset();
    }
    for (auto& [id, pending] : unanswered) {
      pending.placement.Failed(result);
      Deliver(id, result, std::move(pending.loan));
    }
    MutexLock lock(mu_);
    status_known_ = true;
    MaybeEnd();
  }

  void MaybeEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!status_known_ || !late_.empty()) return;
    ended_ = true;
    changed_.notify_all();
  }

  // Constant after construction.
  ClientCore& core_;
  const Connection connection_;
  const std::string target_;
  grpc::CompletionQueue* const queue_;
  const StreamOptions options_;
  StreamCallback on_answer_;  // called on the callback thread only
  grpc::GenericStub stub_;
  grpc::ByteBuffer received_;  // used by the read that is open, and by its event

  Mutex mu_;
  ConditionVariable changed_;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_);  // until the status is known
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<std::uint64_t, Pending> pending_ ABSL_GUARDED_BY(mu_);
  std::deque<std::vector<grpc::Slice>> waiting_ ABSL_GUARDED_BY(mu_);  // requests not yet given to gRPC
  std::vector<Late> late_ ABSL_GUARDED_BY(mu_);
  grpc::Status status_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);  // not OK: the server did not keep to the protocol
  absl::Status result_ ABSL_GUARDED_BY(mu_);  // the status as it is told
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mu_);
  int open_events_ ABSL_GUARDED_BY(mu_) = 0;
  std::size_t pooled_ ABSL_GUARDED_BY(mu_) = 0;  // unanswered ones that may have to be sent again: no half-close yet
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;  // a message or the half-close
  bool write_failed_ ABSL_GUARDED_BY(mu_) = false;
  bool read_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;
  bool status_known_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool alarm_set_ ABSL_GUARDED_BY(mu_) = false;

  Step<GrpcStream> on_started_{this, &GrpcStream::Do<&GrpcStream::OnStarted>};
  Step<GrpcStream> on_written_{this, &GrpcStream::Do<&GrpcStream::OnWritten>};
  Step<GrpcStream> on_read_{this, &GrpcStream::Do<&GrpcStream::OnRead>};
  Step<GrpcStream> on_finished_{this, &GrpcStream::Do<&GrpcStream::OnFinished>};
  Step<GrpcStream> on_alarm_{this, &GrpcStream::Do<&GrpcStream::OnAlarm>};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> MakeStream(ClientCore& core, const Connection& connection, CallbackQueue& queue,
                                                   const StreamOptions& options, StreamCallback on_answer) {
  auto context = std::make_unique<grpc::ClientContext>();
  const absl::Status prepared = core.Prepare(
      context.get(), options.timeout ? std::make_optional(RetryPlan::Clock::now() + *options.timeout) : std::nullopt,
      options.trace);
  if (!prepared.ok()) return prepared;
  return std::make_unique<GrpcStream>(core, connection, queue, options, std::move(context), std::move(on_answer));
}

}  // namespace softmax::client
