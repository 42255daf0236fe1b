#include <grpcpp/alarm.h>

#include <chrono>
#include <deque>
#include <optional>

#include "client/loadgen/sender.h"
#include "client/softmax_client/channel.h"

namespace softmax::client {
namespace {

constexpr std::chrono::milliseconds kPauseAfterBreak(10);
// Below this, one contiguous message is cheaper for gRPC than a header and a reference for each
// request.
constexpr std::size_t kContiguousBytes = 64 << 10;

// One stream message, made once and sent again whenever all its answers are there. The requests'
// ids say which message of the slot they belong to and where in it.
struct Message {
  std::deque<std::string> owned;  // headers, or the whole message; a deque keeps their addresses
  grpc::ByteBuffer bytes;
  std::vector<std::uint32_t> variants;
  std::vector<bool> answered;
  std::size_t outstanding = 0;
  std::int64_t sent_ns = 0;
};

// One stream with a window of messages. Reopens it when it breaks before the end.
class StreamSlot final : public Slot {
 public:
  StreamSlot(SenderThread& thread, std::shared_ptr<grpc::Channel> channel)
      : thread_(thread), stub_(std::move(channel)) {
    const auto per_message = static_cast<std::size_t>(thread.options().requests_per_message);
    messages_.resize(static_cast<std::size_t>(thread.options().in_flight) / per_message);
    for (std::size_t i = 0; i < messages_.size(); ++i) Build(i, per_message);
  }

  void Start() override {
    broken_ = half_closed_ = writing_ = false;
    free_.clear();
    outstanding_ = 0;
    for (std::size_t i = 0; i < messages_.size(); ++i) free_.push_back(i);
    stream_.reset();
    context_.emplace();
    stream_ = stub_.PrepareCall(&*context_, kMethod, thread_.queue());
    stream_->StartCall(on_start_.tag());
  }

  void Cancel() override {
    cancelled_ = true;
    if (context_) context_->TryCancel();
  }

  // The alarm after a break.
  void OnEvent(bool /*ok*/) override {
    if (cancelled_ || thread_.Ended(NowNs())) return thread_.SlotDone();
    Start();
  }

 private:
  // Sends an event on to one of the slot's steps.
  class Step final : public Event {
   public:
    Step(StreamSlot* slot, void (StreamSlot::*method)(bool)) : slot_(slot), method_(method) {}
    void OnEvent(bool ok) override { (slot_->*method_)(ok); }
    void* tag() { return static_cast<Event*>(this); }

   private:
    StreamSlot* slot_;
    void (StreamSlot::*method_)(bool);
  };

  void Build(std::size_t index, std::size_t per_message) {
    Message& message = messages_[index];
    message.answered.resize(per_message);
    std::vector<grpc::Slice> slices;
    std::string contiguous;
    std::size_t payload_bytes = 0;
    for (std::size_t i = 0; i < per_message; ++i) {
      message.variants.push_back(thread_.NextVariant());
      const Variant& variant = thread_.workload().variants()[message.variants.back()];
      message.owned.push_back(thread_.workload().StreamElementHeader(variant, index * per_message + i + 1));
      const auto payload = variant.payload();
      const std::string& header = message.owned.back();
      slices.emplace_back(header.data(), header.size(), grpc::Slice::STATIC_SLICE);
      slices.emplace_back(payload.data(), payload.size(), grpc::Slice::STATIC_SLICE);
      payload_bytes += payload.size();
    }
    if (payload_bytes <= kContiguousBytes) {
      for (const grpc::Slice& slice : slices) {
        contiguous.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      message.owned.push_back(std::move(contiguous));
      const std::string& whole = message.owned.back();
      slices.assign(1, grpc::Slice(whole.data(), whole.size(), grpc::Slice::STATIC_SLICE));
    }
    message.bytes = grpc::ByteBuffer(slices.data(), slices.size());
  }

  void OnStarted(bool ok) {
    if (!ok) return Break();
    Read();
    Write();
  }

  void Read() {
    received_.Clear();
    stream_->Read(&received_, on_read_.tag());
  }

  void Write() {
    if (writing_ || broken_ || half_closed_) return;
    if (cancelled_ || thread_.Ended(NowNs())) {
      if (outstanding_ > 0) return;
      half_closed_ = true;
      stream_->WritesDone(on_half_closed_.tag());
      return;
    }
    if (free_.empty()) return;
    Message& message = messages_[free_.front()];
    free_.pop_front();
    message.answered.assign(message.answered.size(), false);
    message.outstanding = message.variants.size();
    outstanding_ += message.outstanding;
    message.sent_ns = NowNs();
    writing_ = true;
    grpc::WriteOptions write_options;
    if (!free_.empty()) write_options.set_buffer_hint();
    stream_->Write(message.bytes, write_options, on_written_.tag());
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
      read_ended_ = true;
      if (writing_ || (half_closed_ && !half_close_seen_)) return;
      return Break();
    }
    const ReceivedPieces pieces(received_);
    const absl::Status decoded = DecodeStreamResponse(pieces.pieces(), &responses_);
    if (!decoded.ok()) Fail(std::string(decoded.message()));
    for (ResponseFields& response : responses_) OnResponse(response);
    Read();
    Write();
  }

  void OnResponse(ResponseFields& response) {
    const std::size_t per_message = messages_[0].variants.size();
    const std::uint64_t at = response.id - 1;  // id 0 wraps to a number that is too large
    if (at / per_message >= messages_.size()) {
      return Fail("stream answer with the unknown id " + std::to_string(response.id));
    }
    Message& message = messages_[at / per_message];
    const std::size_t place = at % per_message;
    if (message.outstanding == 0 || message.answered[place]) {
      return Fail("second stream answer with id " + std::to_string(response.id));
    }
    message.answered[place] = true;
    --message.outstanding;
    --outstanding_;
    Record(message.variants[place], message.sent_ns, response);
    if (message.outstanding == 0) free_.push_back(at / per_message);
  }

  void Record(std::uint32_t variant, std::int64_t sent_ns, ResponseFields& response) {
    if (response.code != 0) {
      thread_.RecordError(response.code, response.message);
      return;
    }
    const std::uint64_t expected = thread_.workload().variants()[variant].answer_bytes;
    if (response.payload_bytes != expected) {
      return Fail("stream answer of " + std::to_string(response.payload_bytes) + " bytes, expected " +
                  std::to_string(expected));
    }
    thread_.RecordAnswer(variant, sent_ns);
    if (thread_.verifier() != nullptr && (!first_verified_ || thread_.Sample())) {
      first_verified_ = true;
      thread_.verifier()->Submit(variant, std::move(response), received_);
    }
  }

  void Fail(const std::string& why) { thread_.RecordError(grpc::StatusCode::INTERNAL, why); }

  // Nothing is in flight on the stream any more: ask for its status.
  void Break() { stream_->Finish(&status_, on_finished_.tag()); }

  void OnFinished(bool /*ok*/) {
    read_ended_ = half_close_seen_ = false;
    // Every request without an answer is one error, and so is a stream that could not be opened.
    const std::size_t lost = outstanding_ > 0 ? outstanding_ : (status_.ok() ? 0 : 1);
    const int code = status_.ok() ? grpc::StatusCode::INTERNAL : status_.error_code();
    const std::string why = status_.ok() ? "the stream ended with requests unanswered" : status_.error_message();
    for (std::size_t i = 0; i < lost; ++i) thread_.RecordError(code, why);
    if (cancelled_ || thread_.Ended(NowNs())) return thread_.SlotDone();
    alarm_.Set(thread_.queue(), std::chrono::system_clock::now() + kPauseAfterBreak, static_cast<Event*>(this));
  }

  inline static const std::string kMethod = kSoftmaxStreamMethod;

  SenderThread& thread_;
  grpc::GenericStub stub_;
  std::vector<Message> messages_;
  std::deque<std::size_t> free_;  // indices of messages that may be sent
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer received_;
  std::vector<ResponseFields> responses_;
  grpc::Status status_;
  grpc::Alarm alarm_;
  std::size_t outstanding_ = 0;  // requests without an answer
  bool writing_ = false;
  bool half_closed_ = false;
  bool half_close_seen_ = false;
  bool read_ended_ = false;
  bool broken_ = false;
  bool cancelled_ = false;
  bool first_verified_ = false;
  Step on_start_{this, &StreamSlot::OnStarted};
  Step on_read_{this, &StreamSlot::OnRead};
  Step on_written_{this, &StreamSlot::OnWritten};
  Step on_half_closed_{this, &StreamSlot::OnHalfClosed};
  Step on_finished_{this, &StreamSlot::OnFinished};
};

}  // namespace

std::unique_ptr<Slot> MakeStreamSlot(SenderThread& thread, std::shared_ptr<grpc::Channel> channel) {
  return std::make_unique<StreamSlot>(thread, std::move(channel));
}

}  // namespace softmax::client
