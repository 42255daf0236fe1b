#include "server/rpc/calls/unary_call.h"

#include <string>
#include <utility>
#include <vector>

#include "server/rpc/accept/socket_handoff.h"
#include "server/rpc/calls/call_times.h"

namespace softmax::server {
namespace {

// More than this is not copied at one go by a thread that others wait for.
constexpr std::uint64_t kCopyAtOnce = 1u << 20;
constexpr std::uint64_t kCopyAStep = 256u << 10;

}  // namespace

struct UnaryCall::Deferred {
  // A piece with what it borrowed.
  struct Owned {
    explicit Owned(const Piece& borrowed)
        : header(borrowed.header),
          span(borrowed.memory.span == nullptr ? SpanRef() : *borrowed.memory.span),
          copy(borrowed.parts, borrowed.places) {}
    std::string header;
    SpanRef span;
    PayloadCopy copy;
  };
  Deferred(ConnectionShare* share, const Answer& answered, Pieces borrowed, std::uint64_t bytes)
      : answer(answered), owed(share, bytes) {
    answer.span = nullptr;
    pieces.reserve(borrowed.size());
    for (const Piece& piece : borrowed) pieces.emplace_back(piece);
  }
  Answer answer;
  std::vector<Owned> pieces;
  const OwedAnswer owed;
  std::size_t copied = 0;  // pieces
};

UnaryCall::UnaryCall(ThreadContext& thread, Method method)
    : Call(thread.calls), thread_(thread), call_(this), method_(method) {}

UnaryCall::~UnaryCall() {
  if (listed_) thread_.answering.erase(place_);
  if (state_ != State::kWaiting) thread_.state.active_calls.Add(-1);
}

void UnaryCall::Proceed(bool ok) {
  if (state_ == State::kWaiting && ok) {
    Rearm();
    state_ = State::kRunning;
    thread_.state.active_calls.Add(1);
    Handle();
    return;
  }
  if (counts_at_end_) CountAtEnd();
  if (state_ == State::kAnswering && connection_ != nullptr) connection_->account().CallFinished();
  Free();  // the server shuts down, or the answer is out (or given up)
}

void UnaryCall::Handle() {
  call_arrived_ = SteadyClock::now();
  FrontDoor& door = thread_.door;
  door.RequestArrived();
  absl::Status status = door.Enter(call_);
  if (status.ok() && call_.message() == nullptr) status = NoMessageError();
  if (!status.ok()) return FinishWithError(status, SteadyClock::now());
  call_.MarkIfCompressed();
  status = Decode(door.LimitsAtOnce());
  if (is_beyond_budget()) return DecodeElsewhere();
  Decoded(std::move(status));
}

void UnaryCall::DecodeElsewhere() {
  connection_ = thread_.door.ConnectionOf(call_.peer());
  AdmissionQueue& admission = thread_.admission();
  const std::uint64_t bytes = call_.message_bytes();
  if (!admission.HasBytes(share(), bytes)) return FinishWithError(thread_.door.RefuseBytes(), SteadyClock::now());
  if (share() != nullptr) share()->in_flight_bytes += bytes;
  thread_.state.long_work.Add(connection_.get(), [this, bytes] {
    absl::Status status = Decode(thread_.state.limits);
    thread_.queue_thread.RunSoon([this, bytes, status = std::move(status)] {
      if (share() != nullptr) share()->in_flight_bytes -= bytes;
      Decoded(status);
    });
  });
}

void UnaryCall::Decoded(absl::Status status) {
  if (status.ok()) status = FindPlaces();
  status = thread_.door.Decoded(std::move(status));
  if (!status.ok()) return FinishWithError(status, SteadyClock::now());
  // Where it was read elsewhere, the connection is known, and its name may be another's by now.
  if (connection_ == nullptr) {
    const std::string peer = call_.peer();
    connection_ = thread_.door.ConnectionOf(peer);
    left_early_ = connection_ == nullptr && PlainHandoff::IsPeer(peer);
  }
  Submit(call_arrived_, DeadlineOf(call_.raw_deadline()));
}

bool UnaryCall::CanAnswer(const Answer& answer, TimePoint deadline) {
  answered_at_ = SteadyClock::now();
  call_deadline_ = deadline;
  call_.ClearMessage();  // if it was lent; the next message can have its memory
  if (!answer.status.ok()) {
    Account(answer.status, answered_at_, &answer);
    state_ = State::kAnswering;
    call_.FinishWithError(answer.status, answer.retry_after_ms);
    return false;
  }
  const absl::Status in_time = StatusOf(answer, deadline, answered_at_);
  if (!in_time.ok()) FinishWithError(in_time, answered_at_);
  return in_time.ok();
}

void UnaryCall::ListIfLarge(std::uint64_t bytes) {
  if (listed_ || !AnswerSender::MayReference(bytes)) return;
  place_ = thread_.answering.insert(thread_.answering.end(), this);
  listed_ = true;
}

void UnaryCall::Send(const Answer& answer, Pieces pieces) {
  if (MustDefer(pieces)) return Defer(answer, pieces);
  SendNow(answer, pieces);
}

std::uint64_t UnaryCall::BytesOf(Pieces pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.parts.bytes();
  return bytes;
}

bool UnaryCall::MustDefer(Pieces pieces) const {
  const std::uint64_t bytes = BytesOf(pieces);
  return bytes > kCopyAtOnce && !thread_.sender.ShouldReference(bytes, connection_.get());
}

void UnaryCall::Defer(const Answer& answer, Pieces pieces) {
  deferred_ = std::make_unique<Deferred>(share(), answer, pieces, BytesOf(pieces));
  thread_.slices.Add(connection_.get(), [this] { return CopySome(); });
}

bool UnaryCall::CopySome() {
  std::vector<Deferred::Owned>& owned = deferred_->pieces;
  if (!owned[deferred_->copied].copy.Step(kCopyAStep)) return false;
  owned[deferred_->copied].span.Reset();
  if (++deferred_->copied < owned.size()) return false;
  const std::unique_ptr<Deferred> ready = std::move(deferred_);
  std::vector<Piece> pieces;
  for (const Deferred::Owned& piece : ready->pieces) {
    pieces.push_back({piece.header, piece.copy.parts(), piece.copy.places(), {nullptr, piece.copy.memory()}});
    thread_.recorder.Add(Counter::kCopiedOut, piece.copy.parts().bytes());
  }
  answered_at_ = SteadyClock::now();
  SendNow(ready->answer, pieces);
  return true;
}

void UnaryCall::SendNow(const Answer& answer, Pieces pieces) {
  for (const Piece& piece : pieces) {
    ListIfLarge(piece.parts.bytes());
    thread_.sender.Append(piece.header, piece.parts, piece.places, piece.memory, connection_, answered_at_);
  }
  Account(answer.status, answered_at_, &answer);
  state_ = State::kAnswering;
  call_.Finish(thread_.sender.Message(connection_, answered_at_));
}

void UnaryCall::FinishWithError(const absl::Status& status, TimePoint now) {
  Account(status, now, nullptr);
  if (connection_ == nullptr) connection_ = thread_.door.ConnectionOf(call_.peer());
  state_ = State::kAnswering;
  call_.FinishWithError(status, /*retry_after_ms=*/0);
}

void UnaryCall::Account(const absl::Status& status, TimePoint now, const Answer* answer) {
  FrontDoor& door = thread_.door;
  const RequestSample sample = SampleOf(method_, status, call_arrived_, now, answer);
  OnCounted(sample, answer);
  if (!CountsAtEnd()) return door.RequestFinished(sample, log_id(), answer, call_);
  counts_at_end_ = true;
  sample_ = sample;
  door.Report(sample, log_id(), answer, call_);
}

void UnaryCall::CountAtEnd() {
  FrontDoor& door = thread_.door;
  if (given_up_ || call_.cancelled()) {
    const bool late = call_deadline_ <= SteadyClock::now();
    sample_.code = CodeNumber(late ? absl::DeadlineExceededError("") : absl::CancelledError());
  } else if (call_.message() == nullptr && sample_.code == CodeNumber(NoMessageError())) {
    (void)door.RefuseWithoutMessage();
  }
  door.CountFinished(sample_);
}

}  // namespace softmax::server
