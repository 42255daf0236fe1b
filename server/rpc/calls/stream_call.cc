#include "server/rpc/calls/stream_call.h"

#include <algorithm>
#include <utility>

#include "server/rpc/calls/call_times.h"
#include "server/rpc/queue/message_view.h"
#include "server/rpc/queue/raw_call.h"
#include "server/rpc/queue/status.h"

namespace softmax::server {
namespace {

// Answers that are ready share a message up to this size; one answer alone may be larger.
constexpr std::uint64_t kMessageBytes = 256u << 10;

std::string EncodedError(std::uint64_t id, const absl::Status& status, std::uint32_t retry_after_ms) {
  std::string encoded;
  EncodeStreamError(id, status, retry_after_ms, &encoded);
  return encoded;
}

}  // namespace

// One request of a stream. Deletes itself when it is answered.
class StreamCall::Request final : public PendingRequest {
 public:
  Request(StreamCall* call, std::shared_ptr<Message> message, DecodedRequest decoded, RegionPlaces regions,
          TimePoint arrived)
      : call_(call), message_(std::move(message)), decoded_(std::move(decoded)) {
    spec_ = decoded_.spec;
    regions_ = std::move(regions);
    message_bytes_ = decoded_.encoded_bytes;
    arrived_ = arrived;
    deadline_ = DeadlineAfter(arrived, decoded_.timeout_us);
  }

  void CopyInput(std::byte* destination) override {
    MessageView view(&message_->buffer);
    CopyFromSlices(view.slices(), decoded_.payload_offset, spec_.input_bytes(), destination);
  }
  // The message stays as long as any of its requests.
  void LendInput(InputPieces* pieces) override {
    ListPieces(MessageView(&message_->buffer), decoded_.payload_offset, spec_.input_bytes(), pieces);
  }
  const std::uint32_t* lengths() const override { return decoded_.lengths.data(); }
  const std::int32_t* indices() const override { return decoded_.indices.data(); }
  bool CallerLeft() const override { return call_->connection_ != nullptr && call_->connection_->left(); }
  void AnnounceCompletion() override {
    announced_ = true;
    ++call_->gathering_;
  }
  void Complete(const Answer& answer) override {
    std::unique_ptr<Request> self(this);
    call_->Answered(this, answer);
  }

  const DecodedRequest& decoded() const { return decoded_; }
  bool announced() const { return announced_; }
  void LimitDeadline(TimePoint deadline) { deadline_ = std::min(deadline_, deadline); }

 private:
  StreamCall* const call_;
  const std::shared_ptr<Message> message_;
  const DecodedRequest decoded_;
  bool announced_ = false;
};

StreamCall::StreamCall(ThreadContext& thread, bool joins)
    : Call(thread.calls), thread_(thread), joins_(joins), stream_(&context_) {}

void StreamCall::Arm(ThreadContext& thread) {
  auto* call = new StreamCall(thread, /*joins=*/true);
  call->Offer(&thread.softmax);
}

StreamCall::~StreamCall() {
  if (state_ == State::kOffered) return;
  thread_.streams.erase(place_);
  thread_.state.active_calls.Add(-1);
}

void StreamCall::Proceed(bool ok) {
  if (!ok) return Free();
  Rearm();
  thread_.state.active_calls.Add(1);
  place_ = thread_.streams.insert(thread_.streams.end(), this);
  state_ = State::kOpen;
  if (absl::Status status = thread_.door.Enter(context_); !status.ok()) {
    End(std::move(status));
    FinishIfDone();
    return;
  }
  connection_ = thread_.door.ConnectionOf(context_.peer());
  ReadIfRoom();
}

void StreamCall::End(absl::Status status) {
  if (state_ != State::kOpen) return;
  state_ = State::kEnding;
  end_status_ = std::move(status);
}

void StreamCall::ReadIfRoom() {
  TakeRequests();
  if (message_ != nullptr) return;  // its requests first
  if (state_ != State::kOpen || reading() || in_flight_ >= thread_.state.max_in_flight_per_stream) return;
  // Its own answers make room and come back here; what others of the connection hold, a request is refused for.
  if (in_flight_ > 0 && !thread_.admission().HasBytes(share(), thread_.state.limits.max_request_bytes)) return;
  if (IsBehind()) return;  // OnWritten comes back here
  incoming_ = std::make_shared<Message>();
  stream_.Read(&incoming_->buffer, static_cast<Tag*>(&read_));
}

bool StreamCall::IsBehind() const {
  if (outgoing_.empty() && !writing()) return false;
  return outgoing_.size() >= thread_.state.max_in_flight_per_stream ||
         (connection_ != nullptr && !thread_.admission().MayOwe(connection_->share(), 0));
}

void StreamCall::OnRead(bool ok) {
  std::shared_ptr<Message> message = std::move(incoming_);
  if (!ok) {
    End(absl::OkStatus());
  } else if (state_ == State::kOpen) {
    if (message->buffer.Valid()) MarkIfCompressed(context_.c_call(), MessageView::Raw(&message->buffer));
    HandleMessage(message);
    message.reset();  // before more is read
    ReadIfRoom();
  } else if (!end_status_.ok()) {
    (void)thread_.door.RefuseDraining();  // only a drain ends a call while a read is under way
  }
  WriteIfReady();
  FinishIfDone();
}

void StreamCall::HandleMessage(const std::shared_ptr<Message>& message) {
  FrontDoor& door = thread_.door;
  absl::Status status =
      door.Decoded(FrontDoor::Decode(&message->buffer, thread_.state.limits, &message->view, &message->reader));
  if (!status.ok()) return End(std::move(status));
  if (message->reader.left() == 0) return;
  message_ = message;
  message_->bytes_left = message_->view->bytes();
  if (share() != nullptr) share()->in_flight_bytes += message_->bytes_left;
}

bool StreamCall::HasRoomForRequest() const {
  const ServiceState& state = thread_.state;
  if (in_flight_ >= state.max_in_flight_per_stream || IsBehind()) return false;
  return in_flight_ == 0 || thread_.admission().HasBytes(share(), Charge::kStreamedHeld);
}

void StreamCall::TakeRequests() {
  // How many are looked at before the time is.
  constexpr int kAtOnce = 16;
  if (message_ == nullptr || reads_elsewhere_ || will_take_more_) return;
  const TimePoint begin = SteadyClock::now();
  // What is complete at once does not write, read or end the call inside of this.
  ++gathering_;
  for (int i = 1; message_ != nullptr && HasRoomForRequest() && TakeRequest(begin); ++i) {
    if (i % kAtOnce != 0 || SteadyClock::now() - begin < SlicedWork::kSlice) continue;
    will_take_more_ = true;
    thread_.slices.Add(connection_.get(), [this] {
      will_take_more_ = false;
      Continue();
      return true;
    });
    break;
  }
  --gathering_;
  WriteIfReady();
}

bool StreamCall::TakeRequest(TimePoint now) {
  DecodedRequest decoded;
  const absl::Status status = message_->reader.Next(thread_.door.LimitsAtOnce(), &decoded);
  if (decoded.beyond_budget) {
    ReadRequestElsewhere();
    return false;
  }
  Accept(status, std::move(decoded), now);
  return true;
}

void StreamCall::ReadRequestElsewhere() {
  reads_elsewhere_ = true;
  thread_.state.long_work.Add(connection_.get(), [this] {
    auto decoded = std::make_shared<DecodedRequest>();
    absl::Status status = message_->reader.Next(thread_.state.limits, decoded.get());
    thread_.queue_thread.RunSoon([this, decoded, status = std::move(status)] {
      reads_elsewhere_ = false;
      if (state_ == State::kBroken) {
        DropMessage();
      } else {
        ++gathering_;
        Accept(status, std::move(*decoded), SteadyClock::now());
        --gathering_;
      }
      Continue();
    });
  });
}

void StreamCall::Accept(const absl::Status& status, DecodedRequest decoded, TimePoint now) {
  FrontDoor& door = thread_.door;
  const std::shared_ptr<Message> message = message_;
  const std::uint64_t bytes = std::min(decoded.encoded_bytes, message->bytes_left);
  message->bytes_left -= bytes;
  if (share() != nullptr) share()->in_flight_bytes -= bytes;
  if (message->reader.left() == 0) DropMessage();
  if (absl::Status end = door.Decoded(status); !end.ok()) return End(std::move(end));
  RegionPlaces regions;
  if (decoded.status.ok()) decoded.status = door.FindPlaces(decoded, &regions);
  if (!door.StreamedRequestArrived(Method::kSoftmaxStream, decoded.status, now)) {
    return Refuse(EncodedError(decoded.id, decoded.status, 0));
  }
  auto request = std::make_unique<Request>(this, message, std::move(decoded), std::move(regions), now);
  request->LimitDeadline(DeadlineOf(context_.raw_deadline()));
  ++in_flight_;
  thread_.admission().Submit(request.release(), share(), CallKind::kStreamed, now);
}

// Without what is not taken of it.
void StreamCall::DropMessage() {
  if (message_ == nullptr) return;
  if (share() != nullptr) share()->in_flight_bytes -= message_->bytes_left;
  message_->bytes_left = 0;
  message_.reset();
}

void StreamCall::Enqueue(Outgoing out) {
  CountQueued(static_cast<std::int64_t>(out.queued_bytes()));
  outgoing_.push_back(std::move(out));
}

void StreamCall::CountQueued(std::int64_t bytes) {
  if (connection_ == nullptr) return;
  connection_->share().queued_bytes += static_cast<std::uint64_t>(bytes);
  thread_.state.connections.unread_budget().Add(bytes);
}

void StreamCall::QueueError(std::string encoded) { Enqueue({.header = std::move(encoded)}); }

void StreamCall::Refuse(std::string encoded) {
  QueueError(std::move(encoded));
  if (connection_ != nullptr) connection_->account().RequestAnswered();
}

StreamCall::Booked StreamCall::Book(RequestSample sample, absl::Status status, std::uint64_t largest_output,
                                    std::uint64_t copied, std::uint64_t log_id, const Answer& answer) {
  --in_flight_;
  thread_.door.Report(sample, log_id, &answer, context_);
  Booked booked{std::move(status), sample, /*counts_when_written=*/false};
  booked.counts_when_written = booked.status.ok() && largest_output > AnswerSender::kCopyBytes;
  if (!booked.counts_when_written) thread_.door.CountFinished(sample);
  if (answer.ran) thread_.recorder.Add(Counter::kCopiedIn, copied);
  if (connection_ != nullptr) connection_->account().RequestAnswered();
  // Nobody reads it.
  if (state_ == State::kBroken && booked.counts_when_written) CountFinished(sample, /*written=*/false);
  return booked;
}

void StreamCall::Answered(Request* request, const Answer& answer) {
  const TimePoint now = SteadyClock::now();
  absl::Status status = StatusOf(answer, request->deadline(), now);
  const std::uint64_t bytes = request->spec().output_bytes();
  const RequestSample sample = SampleOf(Method::kSoftmaxStream, status, request->arrived(), now, &answer);
  const Booked booked = Book(sample, std::move(status), bytes, request->copied_bytes(), request->decoded().id, answer);
  if (state_ == State::kBroken) {
    // Its answer has nowhere to go.
  } else if (!booked.status.ok()) {
    QueueError(EncodedError(request->decoded().id, booked.status, answer.retry_after_ms));
  } else {
    std::string header;
    AnswerParts parts;
    EncodeAnswerHeader(request->decoded(), TimingOf(answer), /*in_stream=*/true, &header, &parts);
    QueueOutput(std::move(header), parts, answer, answer.span, now);
    if (booked.counts_when_written) outgoing_.back().sample = booked.sample;
  }
  if (request->announced()) --gathering_;
  Continue();
}

void StreamCall::Continue() {
  if (gathering_ > 0) return;
  WriteIfReady();
  ReadIfRoom();
  FinishIfDone();
}

void StreamCall::QueueOutput(std::string header, const AnswerParts& parts, const AnswerPlaces& places,
                             const SpanRef* span, TimePoint now) {
  Outgoing out{.header = std::move(header), .parts = parts, .places = places, .ready = now};
  // A copy now frees the batch's span, which one slow stream would otherwise hold for all of the batch.
  if (thread_.sender.ShouldReference(parts.bytes(), connection_.get())) {
    out.span = *span;
  } else {
    CopyOut(&out);
  }
  Enqueue(std::move(out));
}

void StreamCall::CopyOut(Outgoing* out) {
  const std::uint64_t bytes = out->parts.bytes();
  thread_.recorder.Add(Counter::kCopiedOut, bytes);
  if (bytes > AnswerSender::kCopyBytes) {
    PayloadCopy copy(out->parts, out->places);
    copy.Step();
    out->parts = copy.parts();
    out->places = copy.places();
    out->copy = copy.memory();
  } else {
    // From the last part on, so that the places of those before it stay right.
    for (; out->parts.count > 0; --out->parts.count) {
      const AnswerParts::Part& part = out->parts.part[out->parts.count - 1];
      const std::byte* const data = AnswerSender::AddressOf(part, out->places);
      out->header.insert(part.header_end, reinterpret_cast<const char*>(data), part.bytes);
    }
  }
  out->span.Reset();
}

void StreamCall::CopyOutOlderThan(TimePoint then) {
  for (Outgoing& out : outgoing_) {
    if (out.span && out.ready <= then) CopyOut(&out);
  }
}

void StreamCall::CountFinished(RequestSample sample, bool written) {
  if (!written) sample.code = CodeNumber(absl::CancelledError());
  thread_.door.CountFinished(sample);
}

void StreamCall::DropOutgoing(const std::deque<Outgoing>::iterator& first) {
  for (auto out = first; out != outgoing_.end(); ++out) {
    if (out->sample.has_value()) CountFinished(*out->sample, /*written=*/false);
    CountQueued(-static_cast<std::int64_t>(out->queued_bytes()));
  }
  outgoing_.erase(first, outgoing_.end());
}

void StreamCall::WriteIfReady() {
  if (writing() || outgoing_.empty() || !MayWrite(outgoing_.front())) return;
  AnswerSender& sender = thread_.sender;
  const TimePoint now = SteadyClock::now();
  bool goes_on = false;
  do {
    Outgoing& out = outgoing_.front();
    goes_on = out.goes_on;
    CountQueued(-static_cast<std::int64_t>(out.queued_bytes()));
    if (out.sample.has_value()) writing_samples_.push_back(*out.sample);
    sender.Append(out.header, out.parts, out.places, {&out.span, out.copy}, connection_, now);
    outgoing_.pop_front();
  } while (goes_on || (joins_ && !outgoing_.empty() && sender.size() + outgoing_.front().bytes() <= kMessageBytes));
  writing_since_ = now;
  stream_.Write(sender.Take(connection_, now), static_cast<Tag*>(&written_));
}

void StreamCall::OnWritten(bool ok) {
  writing_since_ = kNoDeadline;
  for (const RequestSample& sample : writing_samples_) CountFinished(sample, ok && !given_up_);
  writing_samples_.clear();
  if (!ok) {
    state_ = State::kBroken;
    DropOutgoing(outgoing_.begin());
    if (!reads_elsewhere_) DropMessage();
  }
  WriteIfReady();
  ReadIfRoom();
  FinishIfDone();
}

void StreamCall::Drain() {
  if (state_ != State::kOpen) return;
  End(DrainingError());
  FinishIfDone();
}

void StreamCall::FinishIfDone() {
  switch (state_) {
    case State::kEnding:
    case State::kBroken:
      if (in_flight_ > 0 || message_ != nullptr || will_take_more_ || writing() || !outgoing_.empty()) return;
      state_ = State::kFinishing;
      stream_.Finish(ToGrpcStatus(end_status_), static_cast<Tag*>(&finished_));
      return;
    case State::kFinished:
      if (!reading()) Free();
      return;
    case State::kOffered:
    case State::kOpen:
    case State::kFinishing:
      return;
  }
}

void StreamCall::OnFinished(bool /*ok*/) {
  if (connection_ != nullptr) connection_->account().CallFinished();
  state_ = State::kFinished;
  FinishIfDone();
}

}  // namespace softmax::server
