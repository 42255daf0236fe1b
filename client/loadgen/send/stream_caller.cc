#include <grpcpp/alarm.h>

#include <chrono>
#include <deque>
#include <optional>

#include "client/loadgen/send/sender.h"
#include "client/softmax_client/channel.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kPauseAfterBreak(10);
// Below this, one contiguous message is cheaper for gRPC than a header and a reference for each
// request.
constexpr std::size_t kContiguousBytes = 64 << 10;

// One place in the caller's window: a stream message and what of it is unanswered. The requests' ids
// say which place they belong to and where in its message. In a closed loop the message is made once
// and sent again whenever all its answers are there; in an open loop it is made for each request.
struct Message {
  grpc::ByteBuffer bytes;
  std::vector<std::uint32_t> variants;
  std::vector<bool> answered;
  std::vector<bool> verifies;     // with --regions: whose answers are to be verified
  std::vector<RegionSlot> slots;  // with --regions, one for each request
  std::size_t outstanding = 0;
  std::optional<std::int64_t> due_ns;  // open loop
  std::int64_t sent_ns = 0;
};

// One stream with a window of messages. Reopens it when it breaks before the end.
class StreamCaller final : public Caller {
 public:
  StreamCaller(SenderThread& thread, std::size_t home, int capacity)
      : Caller(thread, home),
        address_(thread.connections()[home].address),
        open_loop_(thread.options().loop == Loop::kOpen),
        per_message_(static_cast<std::size_t>(thread.options().requests_per_message)),
        messages_(static_cast<std::size_t>(capacity) / per_message_) {
    for (std::size_t i = messages_.size(); i-- > 0;) {
      for (std::size_t r = 0; thread.region() != nullptr && r < per_message_; ++r) {
        messages_[i].slots.push_back(thread.region()->TakeSlot());
      }
      if (open_loop_) {
        idle_.push_back(i);
        continue;
      }
      for (std::size_t r = 0; r < per_message_; ++r) messages_[i].variants.push_back(thread.NextVariant());
      Build(i);
      ready_.push_front(i);
    }
  }

  void Start() override {
    broken_ = half_closed_ = writing_ = started_ = held_back_ = false;
    outstanding_ = 0;
    stream_.reset();
    context_.emplace();
    thread_.Authorize(&*context_);
    stream_ = thread_.StubOf(home_).PrepareCall(&*context_, kMethod, thread_.queue());
    stream_->StartCall(on_start_.tag());
  }

  bool Send(std::uint32_t variant, std::int64_t due_ns) override {
    if (broken_ || reopening_ || idle_.empty()) return false;
    const std::size_t index = idle_.back();
    idle_.pop_back();
    messages_[index].variants.assign(1, variant);
    messages_[index].due_ns = due_ns;
    Build(index);
    ready_.push_back(index);
    Write();
    return true;
  }

  void Stop() override {
    stopped_ = true;
    Write();
  }

  void Cancel() override {
    cancelled_ = true;
    if (context_) context_->TryCancel();
  }

 private:
  // Nothing more is to be sent.
  bool Over() const { return cancelled_ || (open_loop_ ? stopped_ && ready_.empty() : thread_.Ended(NowNs())); }

  void Build(std::size_t index) {
    Message& message = messages_[index];
    std::size_t payload_bytes = 0;
    for (const std::uint32_t variant : message.variants) payload_bytes += VariantAt(variant).payload().size();
    const bool contiguous = payload_bytes <= kContiguousBytes || thread_.region() != nullptr;
    std::string text;
    std::vector<grpc::Slice> slices;
    for (std::size_t i = 0; i < message.variants.size(); ++i) {
      const Variant& variant = VariantAt(message.variants[i]);
      const std::uint64_t id = index * per_message_ + i + 1;
      if (thread_.region() != nullptr) {
        text += thread_.region()->Message(variant, id, true, message.slots[i]);
        continue;
      }
      text += thread_.workload().Header(variant, id, true);
      const auto payload = variant.payload();
      if (contiguous) {
        text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
        continue;
      }
      // The workload outlives every call; a header is copied, because gRPC may hold on to it after a break.
      slices.emplace_back(text);
      slices.emplace_back(payload.data(), payload.size(), grpc::Slice::STATIC_SLICE);
      text.clear();
    }
    if (contiguous) slices.emplace_back(text);
    message.bytes = grpc::ByteBuffer(slices.data(), slices.size());
  }

  const Variant& VariantAt(std::uint32_t variant) const { return thread_.workload().variants()[variant]; }

  void OnStarted(bool ok) {
    if (!ok) return Break();
    started_ = true;
    Read();
    Write();
  }

  void Read() {
    received_.Clear();
    stream_->Read(&received_, on_read_.tag());
  }

  void Write() {
    if (!started_ || writing_ || broken_ || half_closed_) return;
    if (Over()) {
      // The half-close waits for the answers, unless it has to take along what gRPC held back for company.
      if (outstanding_ > 0 && !held_back_) return;
      half_closed_ = true;
      stream_->WritesDone(on_half_closed_.tag());
      return;
    }
    if (ready_.empty()) return;
    Message& message = messages_[ready_.front()];
    ready_.pop_front();
    Book(message);
    writing_ = true;
    grpc::WriteOptions write_options;
    held_back_ = !ready_.empty();
    if (held_back_) write_options.set_buffer_hint();
    stream_->Write(message.bytes, write_options, on_written_.tag());
  }

  // From here on the message's requests want an answer.
  void Book(Message& message) {
    message.answered.assign(message.variants.size(), false);
    message.outstanding = message.variants.size();
    outstanding_ += message.outstanding;
    message.sent_ns = NowNs();
    message.verifies.assign(message.variants.size(), false);
    for (std::size_t i = 0; thread_.region() != nullptr && i < message.variants.size(); ++i) {
      message.verifies[i] = !message.slots[i].uncertain && Verifies();
      thread_.region()->Begin(VariantAt(message.variants[i]), message.verifies[i], message.slots[i]);
    }
    for (const std::uint32_t variant : message.variants) {
      thread_.RecordSend(SentOf(message, variant));
      thread_.RecordAttempt(SentOf(message, variant), address_);
    }
  }

  static Sent SentOf(const Message& message, std::uint32_t variant) {
    return {variant, message.due_ns.value_or(message.sent_ns), message.sent_ns};
  }

  void OnWritten(bool ok) {
    writing_ = false;
    if (!ok) broken_ = true;
    if (read_ended_) return Break();
    Write();
  }

  void OnHalfClosed(bool /*ok*/) {
    half_close_seen_ = true;
    if (read_ended_) Break();
  }

  void OnRead(bool ok) {
    if (!ok) {
      read_ended_ = broken_ = true;
      if (writing_ || (half_closed_ && !half_close_seen_)) return;
      return Break();
    }
    const ReceivedPieces pieces(received_);
    const absl::Status decoded = DecodeStreamResponse(pieces.pieces(), &responses_);
    if (!decoded.ok()) Fault(std::string(decoded.message()));
    for (ResponseFields& response : responses_) OnResponse(response);
    Read();
    Write();
  }

  void OnResponse(ResponseFields& response) {
    const std::uint64_t at = response.id - 1;  // id 0 wraps to a number that is too large
    if (at / per_message_ >= messages_.size()) {
      return Fault("stream answer with the unknown id " + std::to_string(response.id));
    }
    Message& message = messages_[at / per_message_];
    const std::size_t place = at % per_message_;
    if (message.outstanding == 0 || message.answered[place]) {
      return Fault("second stream answer with id " + std::to_string(response.id));
    }
    message.answered[place] = true;
    --message.outstanding;
    --outstanding_;
    Record(message, place, response);
    if (message.outstanding == 0) Free(at / per_message_);
  }

  void Free(std::size_t index) {
    if (open_loop_) {
      idle_.push_back(index);
    } else {
      ready_.push_back(index);
    }
  }

  void Record(Message& message, std::size_t place, ResponseFields& response) {
    const Sent sent = SentOf(message, message.variants[place]);
    if (response.code != 0) {
      if (thread_.region() != nullptr) message.slots[place].Failed(response.code);
      return Failed(sent, response.code, response.message);
    }
    const Variant& variant = VariantAt(sent.variant);
    SendingRegion* const region = thread_.region();
    const std::uint64_t expected = region != nullptr ? 0 : variant.answer_bytes;
    if (response.bytes() != expected) {
      return Failed(
          sent, grpc::StatusCode::INTERNAL,
          "stream answer of " + std::to_string(response.bytes()) + " bytes, expected " + std::to_string(expected));
    }
    if (region != nullptr) region->End(variant, message.slots[place]);
    thread_.RecordAttemptEnd(sent, address_, 0);
    thread_.RecordAnswer(sent);
    if (region == nullptr ? !Verifies() : !message.verifies[place]) return;
    std::optional<PlacedAnswer> placed;
    if (region != nullptr) placed = region->Answer(variant, message.slots[place]);
    thread_.verifier()->Submit({sent.variant, received_, std::move(response), std::move(placed)});
  }

  void Failed(const Sent& sent, int code, const std::string& why) {
    thread_.RecordAttemptEnd(sent, address_, code);
    thread_.RecordError(sent, code, why);
  }

  void Fault(const std::string& why) { thread_.RecordFault(grpc::StatusCode::INTERNAL, why); }

  // Nothing is in flight on the stream any more: ask for its status.
  void Break() {
    broken_ = true;
    stream_->Finish(&status_, on_finished_.tag());
  }

  void OnFinished(bool /*ok*/) {
    read_ended_ = half_close_seen_ = false;
    const int code = status_.ok() ? grpc::StatusCode::INTERNAL : status_.error_code();
    const std::string why = status_.ok() ? "the stream ended with requests unanswered" : status_.error_message();
    // In an open loop, what waited for its turn on this stream is lost with it.
    while (open_loop_ && !ready_.empty()) {
      Book(messages_[ready_.front()]);
      ready_.pop_front();
    }
    // Every request without an answer is one error, and so is a stream that could not be opened.
    if (outstanding_ == 0 && !status_.ok()) thread_.RecordFault(code, why);
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].outstanding == 0) continue;
      const Sent sent = SentOf(messages_[i], messages_[i].variants.front());
      for (RegionSlot& slot : messages_[i].slots) slot.Failed(code);
      for (; messages_[i].outstanding > 0; --messages_[i].outstanding) Failed(sent, code, why);
      Free(i);
    }
    if (Over()) return thread_.CallerDone();
    thread_.RenewIfLost(home_);
    reopening_ = true;
    alarm_.Set(thread_.queue(), std::chrono::system_clock::now() + kPauseAfterBreak, on_alarm_.tag());
  }

  void OnAlarm(bool /*ok*/) {
    reopening_ = false;
    if (Over()) return thread_.CallerDone();
    Start();
  }

  inline static const std::string kMethod = kSoftmaxStreamMethod;

  const std::size_t address_;
  const bool open_loop_;
  const std::size_t per_message_;
  std::vector<Message> messages_;
  std::deque<std::size_t> ready_;  // indices of messages to be written
  std::vector<std::size_t> idle_;  // open loop: of places that are free
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer received_;
  std::vector<ResponseFields> responses_;
  grpc::Status status_;
  grpc::Alarm alarm_;
  std::size_t outstanding_ = 0;  // requests without an answer
  bool started_ = false;
  bool writing_ = false;
  bool held_back_ = false;  // the last message may wait in gRPC for the next
  bool half_closed_ = false;
  bool half_close_seen_ = false;
  bool read_ended_ = false;
  bool broken_ = false;
  bool reopening_ = false;  // the alarm is set
  Step<StreamCaller> on_start_{this, &StreamCaller::OnStarted};
  Step<StreamCaller> on_read_{this, &StreamCaller::OnRead};
  Step<StreamCaller> on_written_{this, &StreamCaller::OnWritten};
  Step<StreamCaller> on_half_closed_{this, &StreamCaller::OnHalfClosed};
  Step<StreamCaller> on_finished_{this, &StreamCaller::OnFinished};
  Step<StreamCaller> on_alarm_{this, &StreamCaller::OnAlarm};
};

}  // namespace

std::unique_ptr<Caller> MakeStreamCaller(SenderThread& thread, std::size_t home, int capacity) {
  return std::make_unique<StreamCaller>(thread, home, capacity);
}

}  // namespace softmax::client
