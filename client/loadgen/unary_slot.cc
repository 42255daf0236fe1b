#include <grpcpp/alarm.h>

#include <chrono>
#include <optional>

#include "client/loadgen/sender.h"
#include "client/softmax_client/channel.h"

namespace softmax::client {
namespace {

// A server that refuses is not asked again at once by the same slot.
constexpr std::chrono::milliseconds kPauseAfterRefusal(10);

bool IsRefusal(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

// One unary call at a time.
class UnarySlot final : public Slot {
 public:
  UnarySlot(SenderThread& thread, std::shared_ptr<grpc::Channel> channel)
      : thread_(thread), stub_(std::move(channel)) {}

  void Start() override {
    pausing_ = false;
    variant_ = thread_.NextVariant();
    const Variant& variant = thread_.workload().variants()[variant_];
    // The workload outlives every call, so gRPC needs neither a copy nor a count of references.
    const grpc::Slice slice(variant.message.data(), variant.message.size(), grpc::Slice::STATIC_SLICE);
    const grpc::ByteBuffer request(&slice, 1);
    reader_.reset();
    context_.emplace();
    if (thread_.options().timeout.count() > 0) {
      context_->set_deadline(std::chrono::system_clock::now() + thread_.options().timeout);
    }
    response_.Clear();
    sent_ns_ = NowNs();
    reader_ = stub_.PrepareUnaryCall(&*context_, kMethod, request, thread_.queue());
    reader_->StartCall();
    reader_->Finish(&response_, &status_, static_cast<Event*>(this));
  }

  void OnEvent(bool /*ok*/) override {
    if (pausing_) {
      if (cancelled_ || thread_.Ended(NowNs())) return thread_.SlotDone();
      return Start();
    }
    if (status_.ok()) return OnAnswer();
    const bool more = thread_.RecordError(status_.error_code(), status_.error_message());
    Continue(more, IsRefusal(status_.error_code()));
  }

  void Cancel() override {
    cancelled_ = true;
    if (context_) context_->TryCancel();
  }

 private:
  void OnAnswer() {
    // A header of at most 256 bytes, then the tensor.
    const Variant& variant = thread_.workload().variants()[variant_];
    const std::uint64_t length = response_.Length();
    const bool size_fits = length >= variant.answer_bytes && length <= variant.answer_bytes + 256;
    if (!size_fits) {
      const bool more =
          thread_.RecordError(grpc::StatusCode::INTERNAL, "answer of " + std::to_string(length) + " bytes, expected " +
                                                              std::to_string(variant.answer_bytes) + " and a header");
      return Continue(more, false);
    }
    const bool more = thread_.RecordAnswer(variant_, sent_ns_);
    if (thread_.verifier() != nullptr && (!first_verified_ || thread_.Sample())) {
      first_verified_ = true;
      thread_.verifier()->Submit(variant_, std::move(response_));
      response_ = grpc::ByteBuffer();
    }
    Continue(more, false);
  }

  void Continue(bool more, bool pause) {
    if (!more || cancelled_) return thread_.SlotDone();
    if (!pause) return Start();
    pausing_ = true;
    alarm_.Set(thread_.queue(), std::chrono::system_clock::now() + kPauseAfterRefusal, static_cast<Event*>(this));
  }

  inline static const std::string kMethod = kSoftmaxMethod;

  SenderThread& thread_;
  grpc::GenericStub stub_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader_;
  grpc::ByteBuffer response_;
  grpc::Status status_;
  grpc::Alarm alarm_;
  std::int64_t sent_ns_ = 0;
  std::uint32_t variant_ = 0;
  bool pausing_ = false;  // the event to come is the alarm's
  bool cancelled_ = false;
  bool first_verified_ = false;
};

}  // namespace

std::unique_ptr<Slot> MakeUnarySlot(SenderThread& thread, std::shared_ptr<grpc::Channel> channel) {
  return std::make_unique<UnarySlot>(thread, std::move(channel));
}

}  // namespace softmax::client
